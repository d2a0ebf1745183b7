"""Where torch is not installed there is no trainer to test: nothing that imports torch is collected."""

from importlib.util import find_spec

NEED_TORCH = ["trainer/*", "tests/trainer/*", "tests/small_models.py"]

collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH
