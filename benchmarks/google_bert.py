"""google-research/bert's `create_pretraining_data.py` as a peer: run as it is, with a stand-in for TensorFlow.

    script = load_script(Path("bert"))                       a checkout of google-research/bert, such as eedf571
    script.instances(lines, script.tokenizer(vocab_file), ScriptSettings())

Promise: the instances are those of the authors' own functions in their order. Of TensorFlow they use only flags and
files, and these the stand-in has; nothing is written, so a benchmark measures the making of examples without their
serialisation. Nothing of the script is kept here: the comparison needs a checkout.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

from shards.builders.google_bert.builder import ScriptSettings

SCRIPT, TOKENIZATION = "create_pretraining_data", "tokenization"


@dataclass(frozen=True, slots=True)
class AuthorsScript:
    """The script and its tokenizer, loaded."""

    script: ModuleType
    tokenization: ModuleType

    def tokenizer(self, vocabulary: Path, lowercase: bool = True) -> Any:
        """Return the authors' tokenizer for a vocab.txt."""
        return self.tokenization.FullTokenizer(vocab_file=str(vocabulary), do_lower_case=lowercase)

    def instances(self, lines: Sequence[str], tokenizer: Any, settings: ScriptSettings) -> list[Any]:
        """Return what the script makes of lines: sentences, and an empty line after each document."""
        self.script.FLAGS.do_whole_word_mask = settings.whole_words
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", suffix=".txt") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            made: list[Any] = self.script.create_training_instances(
                [file.name],
                tokenizer,
                settings.length,
                settings.copies,
                settings.short_sequence_probability,
                settings.rate,
                settings.most_masks,
                Random(settings.seed),
            )
        return made


def load_script(folder: Path) -> AuthorsScript:
    """Load the script of a checkout."""
    with _stand_ins():
        tokenization = _module(folder, TOKENIZATION)
        sys.modules[TOKENIZATION] = tokenization
        return AuthorsScript(_module(folder, SCRIPT), tokenization)


def _module(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Provide TensorFlow's flags and files, and `six`, for as long as the script is loaded."""
    flags = SimpleNamespace(FLAGS=SimpleNamespace())
    for kind in ("string", "bool", "integer", "float"):
        setattr(flags, f"DEFINE_{kind}", lambda name, default, _: setattr(flags.FLAGS, name, default))
    tensorflow, six = ModuleType("tensorflow"), ModuleType("six")
    vars(tensorflow).update(flags=flags, gfile=SimpleNamespace(GFile=_open))
    vars(six).update(PY2=False, PY3=True)
    names = {"tensorflow": tensorflow, "six": six, TOKENIZATION: None, SCRIPT: None}
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.modules.update({name: module for name, module in names.items() if module is not None})
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def _open(name: str, mode: str) -> Any:
    return Path(name).open(mode, encoding="utf-8", newline="\n")
