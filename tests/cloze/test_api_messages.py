"""Errors of Python name the arguments of Python: the law is that what a message says to write can be written there.

No message has an option of the command (`--set`), a key of a recipe, the path of a file that we wrote, or a place in a
recipe (`[[source]]`). Remedies are carried out.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_recipe import prose

import cloze

ROWS = [{"text": prose(n), "label": f"label {n % 2}"} for n in range(12)]


def folder(where: Path) -> Path:
    """A folder of one table without texts, one of two columns, and a damaged file."""
    where.mkdir()
    (where / "numbers.csv").write_text("amount,price\n" + "1,2\n" * 20)
    return where


def shards() -> cloze.Shards:
    vocab = cloze.train_vocabulary([prose(1)], size=100, progress=False)
    return cloze.build_shards([prose(1)], vocab, 64, input="single", progress=False)


MISTAKES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no text": (lambda path: cloze.read(folder(path / "f")), r'Name one with fields=\{"text": "NAME"\}'),
    "no files": (lambda path: cloze.read(path), r"Give a file with one of the endings"),
    "fields": (lambda path: cloze.read(ROWS, fields={"txt": "text"}), "`fields` has no key 'txt': did you mean 'text'"),
    "damage": (lambda path: cloze.read(ROWS, on_damage="maybe"), "^on_damage = 'maybe'"),
    "workers": (lambda path: cloze.run(path, workers=-3), "^workers = -3"),
    "profile": (lambda path: cloze.clean(ROWS, profile="x"), "^profile = 'x'"),
    "language": (lambda path: cloze.judge(ROWS, language="english"), '^language has "english"'),
    "rules": (lambda path: cloze.judge(ROWS, rules={"gopher": {"min_words": "x"}}), r"^rules\.gopher\.min_words"),
    "threshold": (lambda path: cloze.deduplicate(ROWS, threshold=2.0), "^threshold = 2.0"),
    "held_out": (lambda path: cloze.deduplicate(ROWS, held_out=2), "^held_out = 2.0"),
    "algorithm": (lambda path: cloze.train_vocabulary(ROWS, "bpe"), "^algorithm = 'bpe'"),
    "size": (lambda path: cloze.train_vocabulary(ROWS, size=3), "^size is 3"),
    "length": (lambda path: cloze.build_shards(ROWS, shards().vocabulary, 1), "^length = 1"),
    "masking": (lambda path: cloze.build_shards(ROWS, shards().vocabulary, masking={"rate": 3}), r"^masking\.rate = 3"),
    "split": (lambda path: shards().split("test"), "^split = 'test'"),
    "steps": (lambda path: cloze.train(shards(), steps=-1), "^steps = -1"),
    "precision": (lambda path: cloze.train(shards(), steps=1, precision="x"), "^precision = 'x'"),
    "task": (lambda path: cloze.check("clases", ROWS), "^task = 'clases'"),
    "labels": (lambda path: cloze.check("classes", [{"text": "a"}]), r"^train: 1 of 1 rows .*: fix the rows or name"),
    "role": (lambda path: cloze.check("classes", ROWS, columns={"txt": "text"}), "^train: a column is named for 'txt'"),
    "reading": (lambda path: cloze.check("classes", ROWS, reading={"headr": False}), "^reading has no key 'headr'"),
    "saving": (lambda path: cloze.read(ROWS, progress=False).save(path / "x.txt"), r"ends in \.parquet or \.jsonl"),
    "vocabulary": (lambda path: shards().vocabulary.save("/proc/none"), "^Cannot write /proc/none"),
    "model": (lambda path: cloze.load_model(path / "none"), "^There is no folder"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_the_words_of_python(mistake: str, tmp_path: Path) -> None:
    """Fails if a message names an option, a key of a recipe or a file of ours in place of the argument."""
    call, message = MISTAKES[mistake]
    with pytest.raises(cloze.InputError, match=message) as refusal:
        call(tmp_path)
    told = str(refusal.value)
    assert not [word for word in ("--", "[[", "cloze-", ".toml", "rows.jsonl", "train.jsonl") if word in told], told


def test_remedies_are_carried_out(tmp_path: Path) -> None:
    """Fails if what a message says to write does not mend what it speaks of."""
    numbers = folder(tmp_path / "f")
    assert len(cloze.read(numbers, fields={"text": "price"}, progress=False)) == 20
    (tmp_path / "bare.csv").write_text("".join(f'"{row["text"]}",{row["label"]}\n' for row in ROWS))
    with pytest.raises(cloze.InputError, match="Its number does as well; if the file has no header, say so"):
        cloze.check("classes", tmp_path / "bare.csv")
    asked: dict[str, Any] = {"columns": {"text": "1", "label": "2"}, "reading": {"header": False}}
    assert cloze.check("classes", tmp_path / "bare.csv", **asked)["rows"] == {"bare.csv": 12}
    findings = {finding["name"]: finding["what"] for finding in cloze.check("classes", [ROWS[0]] * 4)["findings"]}
    assert 'columns={"label": ...}' in findings["one-class"]
