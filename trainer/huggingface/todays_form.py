"""Finds a model folder in the current format, converting an older one once. No torch.

    folder ─► one model.safetensors, a tokenizer.json, a model type? ─► the folder itself
              otherwise ─► ~/.cache/cloze/older/DIGEST, written by `python -m trainer import` (`checkpoints.py`)

Promise: the copy depends only on the folder's content, and so does everything that is made with it. Cost: the files of
an older folder are hashed each time, at 1.3 GB/s. The copy takes as much space as its weights.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from corpora.errors import InputError
from corpora.lean_process import OWN_CODE
from corpora.store.manifest import compute_fingerprint
from corpora.store.places.pipes import check_not_pipe
from trainer.huggingface.config import CONFIG, read_json
from trainer.huggingface.sentence_transformers import MODULES
from trainer.job import CACHE
from trainer.start_weights import WEIGHTS, hash_file

PICKLED, INDEX = "pytorch_model.bin", ".index.json"
OLDER_WEIGHTS = (PICKLED, PICKLED + INDEX, WEIGHTS + INDEX)
TOKENIZER, VOCABULARY_FILES = "tokenizer.json", ("vocab.txt", "vocab.json")
READ_SUFFIXES = (".json", ".bin", ".safetensors", ".txt")  # endings of files that decide
PREFIX = "trainer: "  # of a refusal
BUILD = 1  # to be raised if the copies become others


def is_older(folder: Path) -> bool:
    """Return True if a model folder has weights, a tokenizer or a configuration in an older format.

    Older formats are weights that are pickled or split into several files, a vocab.txt without a tokenizer.json, and a
    config.json without a model type.

    Raises:
        InputError: If the configuration is unreadable.
    """

    def has(*names: str) -> bool:
        return any((folder / name).is_file() for name in names)

    if not has(CONFIG):
        return has(MODULES)  # an old folder of sentence-transformers has its encoder in one below
    if not has(WEIGHTS):
        return has(*OLDER_WEIGHTS)
    return (has(*VOCABULARY_FILES) and not has(TOKENIZER)) or "model_type" not in read_json(folder / CONFIG)


def convert_older_folder(folder: Path, digest: Callable[[Path], str] = hash_file) -> Path:
    """Convert a model folder of an older format, and return the folder of the cached result.

    A folder in the current format is not converted, and its path is returned.

    Args:
        folder: The folder.
        digest: Called with each file of the folder. It returns the SHA-256.

    Raises:
        InputError: If the folder does not contain a complete model, or contains a named pipe.
    """
    inside = [*folder.glob("*"), *(folder.glob("*/*") if (folder / MODULES).is_file() else ())]
    for path in inside:
        check_not_pipe(path)
    if not is_older(folder):
        return folder
    paths = sorted(path for path in inside if path.suffix in READ_SUFFIXES and path.is_file())
    content = compute_fingerprint(
        build=BUILD, files={path.relative_to(folder).as_posix(): digest(path) for path in paths}
    )
    made = CACHE.expanduser() / "older" / content
    if not made.is_dir():
        called = [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), "import", str(folder), str(made)]
        variables = {**os.environ, **OWN_CODE}
        done = subprocess.run(called, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode and not made.is_dir():  # another process may have made it
            said = done.stderr.strip().rpartition("\n")[2]
            raise InputError(said.removeprefix(PREFIX) or f"{folder} cannot be read: the trainer ended early.")
    return made
