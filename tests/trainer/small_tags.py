"""Small jobs of tagging: sentences of a few words in files of CoNLL's form."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from small_models import WORDS
from small_tasks import new_job

from trainer.tasks.formats.records import FileSettings
from trainer.tasks.settings import FinetuneJob


def tagged(number: int, seed: int) -> list[list[tuple[str, str]]]:
    """Sentences in which `good` and what follows it up to `film` is a span, and `bad` is one of another type."""
    drawn = random.Random(seed)
    found = []
    for _ in range(number):
        sentence = list[tuple[str, str]]()
        for word in drawn.choices(("good", "bad", *WORDS[3:7]), k=drawn.randint(2, 6)):
            sentence.append((word, {"good": "B-LIKE", "bad": "B-HATE"}.get(word, "O")))
            if word == "good":
                sentence.append(("film", "I-LIKE"))
        found.append(sentence)
    return found


def write_conll(path: Path, sentences: Sequence[Sequence[tuple[str, str]]]) -> FileSettings:
    """Words and tags, a word a line."""
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return FileSettings(path=str(path))


def tags_job(folder: Path, output: str = "out", task: Any = None, rows: int = 120, **asked: Any) -> FinetuneJob:
    """A job on small sentences."""
    job = new_job(folder, output, task={"kind": "tags", **(task or {})}, **asked)
    return replace(
        job,
        task={"kind": "tags", **(task or {})},
        training=write_conll(folder / "train.conll", tagged(rows, 1)),
        evaluation=write_conll(folder / "dev.conll", tagged(40, 2)),
    )
