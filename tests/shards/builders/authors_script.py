"""google-research/bert's `create_pretraining_data.py` as a peer: run as it is, with a stand-in for TensorFlow.

    script = load_script(Path("bert"))                       a checkout of google-research/bert, such as eedf571
    script.instances(lines, script.tokenizer(vocab_file), length=128, copies=10, seed=12_345)

The instances are those of the authors' own functions in their order. Of TensorFlow they use only flags and files, and
these the stand-in has. Nothing of the script is kept here: the comparison needs a checkout.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

SCRIPT, TOKENIZATION = "create_pretraining_data", "tokenization"


@dataclass(frozen=True, slots=True)
class AuthorsScript:
    """The script and its tokenizer, loaded."""

    script: ModuleType
    tokenization: ModuleType

    def tokenizer(self, vocabulary: Path) -> Any:
        """Return the authors' tokenizer for a vocab.txt."""
        return self.tokenization.FullTokenizer(vocab_file=str(vocabulary), do_lower_case=True)

    def instances(self, lines: Sequence[str], tokenizer: Any, length: int, copies: int, seed: int) -> list[Any]:
        """Return what the script makes of lines: sentences, and an empty line after each document."""
        short_sequence_probability, rate, most_masks = 0.1, 0.15, 20
        drawn = short_sequence_probability, rate, most_masks, Random(seed)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", suffix=".txt") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            made: list[Any] = self.script.create_training_instances([file.name], tokenizer, length, copies, *drawn)
        return made


def load_script(folder: Path) -> AuthorsScript:
    """Load the script of a checkout, with TensorFlow's flags and files, and `six`, for as long as that takes."""
    flags = SimpleNamespace(FLAGS=SimpleNamespace())
    for kind in ("string", "bool", "integer", "float"):
        setattr(flags, f"DEFINE_{kind}", lambda name, default, _: setattr(flags.FLAGS, name, default))
    tensorflow, six = ModuleType("tensorflow"), ModuleType("six")
    vars(tensorflow).update(flags=flags, gfile=SimpleNamespace(GFile=_open))
    vars(six).update(PY2=False, PY3=True)
    with patch.dict(sys.modules, tensorflow=tensorflow, six=six):
        tokenization = sys.modules[TOKENIZATION] = _module(folder, TOKENIZATION)
        return AuthorsScript(_module(folder, SCRIPT), tokenization)


def _module(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _open(name: str, mode: str) -> Any:
    return Path(name).open(mode, encoding="utf-8", newline="\n")
