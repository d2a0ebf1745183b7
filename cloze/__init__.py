"""Cloze from Python: documents, vocabularies, shards and models in a few calls, in a notebook or a program.

    read ─► clean ─► judge ─► deduplicate ─► train_vocabulary ─► build_shards ─► train ─► finetune ─► predict
            documents.py                     vocabulary.py       shards.py       models.py

    run      a whole recipe (runs.py)

Nothing is computed twice, and nothing here is a second way to do it: each call adds to the tables of a recipe, and has
the stages built that a run of that recipe has (workspace.py, progress.py), here or in a store that runs share.
inputs.py looks at what a caller gives for texts, rows or files; messages.py tells errors in Python's words; encoding.py
calls a vocabulary as Hugging Face's tokenizers are called.

Importing the package imports none of them: a name is looked up when it is first used. docs/api.md says which names stay
as they are, and a test holds their signatures.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloze.documents import Documents, clean, deduplicate, judge, read, similar
    from cloze.encoding import Encoding
    from cloze.models import Model, check, embed, evaluate, fill, finetune, load_model, predict, train
    from cloze.runs import Run, RunFailed, run
    from cloze.shards import Shards, build_shards, open_shards, trace
    from cloze.vocabulary import Vocabulary, load_vocabulary, train_vocabulary
    from corpora.errors import InputError
    from trainer.launch import TrainingFailed

__all__ = [
    "Documents", "Encoding", "InputError", "Model", "Run", "RunFailed", "Shards", "TrainingFailed", "Vocabulary",
    "build_shards", "check", "clean", "deduplicate", "embed", "evaluate", "fill", "finetune", "judge", "load_model",
    "load_vocabulary", "open_shards", "predict", "read", "run", "similar", "trace", "train", "train_vocabulary",
]  # fmt: skip

_MODULES = {
    "cloze.documents": ("Documents", "clean", "deduplicate", "judge", "read", "similar"),
    "cloze.encoding": ("Encoding",),
    "cloze.models": ("Model", "check", "embed", "evaluate", "fill", "finetune", "load_model", "predict", "train"),
    "cloze.runs": ("Run", "RunFailed", "run"),
    "cloze.shards": ("Shards", "build_shards", "open_shards", "trace"),
    "cloze.vocabulary": ("Vocabulary", "load_vocabulary", "train_vocabulary"),
    "corpora.errors": ("InputError",),
    "trainer.launch": ("TrainingFailed",),
}


def __getattr__(name: str) -> Any:
    """Return a public name, from the module that defines it."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("cloze-pipeline")
    raise AttributeError(f"module 'cloze' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return [*__all__, "__version__"]
