"""Inputs that change, or never come, while they are read.

Laws: a file that is another one at the end of a reading than at its beginning ends it with "changed while it was read",
whatever reads it; a pipe that nobody writes to ends the wait for it with one sentence.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from corpora.judging.documents import read_slices
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.bytes.unchanged import hold_unchanged, read_states
from corpora.sources.contract import StatCache, Tally, hash_files
from corpora.sources.files.source import FilesSource
from corpora.store.places import pipes
from corpora.store.places.place import Place
from flows.command.record_files import hold_piped_file
from flows.command.vocabulary_adapt import _iter_file_texts
from flows.dedup import run as deduplicating
from flows.dedup.run import DedupSettings, dedup
from flows.recipes.lock import read_lock
from flows.recipes.recipe import read_recipe
from trainer.huggingface.todays_form import convert_older_folder
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts

LINES = "".join(json.dumps({"text": f"This is the text of number {n}."}) + "\n" for n in range(40))
Change = Callable[[Path], object]


def _grow(path: Path) -> None:
    path.write_text(LINES + LINES, encoding="utf-8")


def _in_place(path: Path) -> None:
    """Write other bytes of the same number into the same file."""
    path.write_text(LINES.replace("This", "That"), encoding="utf-8")
    os.utime(path, ns=(1, 1))


def _another(path: Path) -> None:
    """Put a file of the same size and time in its place."""
    times, new = path.stat().st_mtime_ns, path.with_suffix(".new")
    new.write_text(LINES.replace("This", "That"), encoding="utf-8")
    os.utime(new, ns=(times, times))
    new.replace(path)


CHANGES: dict[str, Change] = {
    "longer": _grow,
    "shorter": lambda path: path.write_text(LINES[:100], encoding="utf-8"),
    "no text": lambda path: path.write_bytes(b"\xff\x00" * 700),
    "in place": _in_place,
    "another": _another,
    "gone": lambda path: path.unlink(),
}


def _after_the_first(rows: Iterator[Any], change: Callable[[], object]) -> None:
    next(rows)
    change()
    list(rows)


def _as_raw_file(path: Path, change: Callable[[], object]) -> None:
    source = FilesSource(name="docs", path=str(path.parent))
    [raw] = hash_files(source.files(), StatCache())
    _after_the_first(read_slices(source, source.slices(raw), Tally()), change)


def _as_raw_file_before(path: Path, change: Callable[[], object]) -> None:
    """The change is between hashing and reading."""
    source = FilesSource(name="docs", path=str(path.parent))
    [raw] = hash_files(source.files(), StatCache())
    slices = source.slices(raw)
    change()
    list(read_slices(source, slices, Tally()))


def _as_labelled_file(path: Path, change: Callable[[], object]) -> None:
    rows = read_examples(FileSettings(path=str(path), max_unusable=1.0), RowCounts(), ("text",), dict)
    _after_the_first(rows, change)


def _as_domain(path: Path, change: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.command.vocabulary_adapt.BATCH_CHARACTERS", 1)
        _after_the_first(iter(_iter_file_texts(str(path.parent), "text", {"records": 0})), change)  # type: ignore[arg-type]


def _as_rows(path: Path, change: Callable[[], object], output: str = "out") -> None:
    judge = deduplicating.judge_rows

    def changed(*args: Any) -> Any:
        judged = judge(*args)
        change()
        return judged

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deduplicating, "judge_rows", changed)
        dedup([str(path)], path.parent.parent / output, DedupSettings(exact_only=True), 1)


READERS = {
    "a run, between hashing and reading": _as_raw_file_before,
    "a run, while it reads": _as_raw_file,
    "check, finetune, evaluate, predict, embed": _as_labelled_file,
    "vocabulary adapt": _as_domain,
    "dedup to a folder": _as_rows,
    "dedup to a file": lambda path, change: _as_rows(path, change, "out.jsonl"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_changes_while_it_is_read_is_told(reader: str, change: str, tmp_path: Path) -> None:
    """Fails if rows come twice, or are lost, or another file's are taken, without a word."""
    path = tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    path.write_text(LINES, encoding="utf-8")
    with pytest.raises(InputError, match=r"changed while it was read|No such file|is gone"):
        READERS[reader](path, lambda: CHANGES[change](path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_read_in_peace_is_no_fault(reader: str, tmp_path: Path) -> None:
    """A change of its name's folder, or a reader that stops early, is none either."""
    path = tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    path.write_text(LINES, encoding="utf-8")
    READERS[reader](path, (tmp_path / "beside").touch)


def test_who_needs_no_more_of_a_file_hears_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(LINES, encoding="utf-8")
    rows = read_examples(FileSettings(path=str(path)), RowCounts(), ("text",), dict)
    next(rows)
    path.unlink()
    rows.close()  # type: ignore[attr-defined]
    with hold_unchanged(read_states([str(path)])):
        pass  # what was gone before is gone


# Pipes.


def _open_labelled(path: Path) -> None:
    with hold_piped_file(FileSettings(path=str(path))):
        pass


WAITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a text": ("a.txt", open_raw),
    "a packed text": ("a.txt.gz", open_raw),
    "a text of zstd": ("a.txt.zst", open_raw),
    "a text of xz": ("a.txt.xz", open_raw),
    "labelled records": ("a.jsonl", _open_labelled),
    "a recipe": ("a.toml", read_recipe),
    "a lock": ("a.lock", read_lock),
    "a file of a store, read": ("manifest.json", lambda path: Place(str(path.parent)).read(path.name)),
    "a file of a store, mapped": ("a.arrow", lambda path: Place(str(path.parent)).open(path.name)),
    "weights": ("model.safetensors", lambda path: convert_older_folder(path.parent)),
    "a configuration": ("config.json", lambda path: convert_older_folder(path.parent)),
    "a table of columns": (
        "a.parquet",
        lambda path: list(read_examples(FileSettings(path=str(path)), RowCounts(), ("text",), dict)),
    ),
    "a sheet": ("a.xlsx", lambda path: list(read_examples(FileSettings(path=str(path)), RowCounts(), ("text",), dict))),
}


@pytest.mark.parametrize("waiter", WAITERS)
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(
    waiter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails (by never ending) where a command waits for ever for a byte of its input."""
    monkeypatch.setattr(pipes, "WRITER_SECONDS", 0.01)
    name, read = WAITERS[waiter]
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="is a pipe"):
        read(tmp_path / name)


def test_a_pipe_that_somebody_writes_to_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(LINES * 100, encoding="utf-8"))
    writer.start()
    with hold_piped_file(FileSettings(path=str(path))) as whole:
        assert Path(whole.path).read_text(encoding="utf-8") == LINES * 100
    writer.join()
