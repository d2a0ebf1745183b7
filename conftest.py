"""Names the plugins of the tests; where torch is not installed, leaves out what needs it."""

from importlib.util import find_spec

pytest_plugins = ("side_by_side", "cpu_seconds")

NEED_TORCH = ["trainer/*", "tests/trainer/*", "tests/small_models.py"]

collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH


def pytest_report_header() -> list[str]:
    """Say what is left out and how to have it."""
    left_out = "no torch, so no tests of the trainer: `make develop` without TORCH=none installs it"
    return [left_out] if collect_ignore_glob else []
