"""Every reader of Parquet next to a file that lies about itself: all its rows, or one paragraph that names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lying_parquet import ROWS, TEXTS, lying_files
from source_reading import read as read_source
from task_records import read_records

from corpora.errors import InputError
from corpora.judging.steps.contamination import EvaluationSet, read_items
from corpora.sources.contract import RawFile
from corpora.sources.files.source import FilesSource
from corpora.sources.openwebtext import OpenWebTextSource
from flows.dedup.inputs import find_inputs, read_chunks
from flows.run.estimates.sampling import sample_source
from trainer.tasks.formats.records import FileSettings, RowCounts


def _of_source(make: Callable[..., Any]) -> Callable[[Path], list[str | None]]:
    return lambda path: [record.text for record in read_source(make(path=str(path)))]


def _sampled(path: Path) -> list[str | None]:
    source = FilesSource(name="own", path=str(path), fields={"text": "text"})
    raw = [RawFile(name=path.name, sha256="", size_bytes=path.stat().st_size, path=str(path))]
    found = sample_source(source, raw)
    texts = [record.text for record in found.sampled]
    if len(texts) < ROWS:
        raise InputError(f"{path.name}: {len(texts)} of about {found.records}")  # what is left is estimated
    return texts


def _of_dedup(path: Path) -> list[str | None]:
    [*pieces] = find_inputs([str(path)], "text", "", "").pieces
    return [text for piece in pieces for chunk in read_chunks(piece) for text in chunk.texts.to_pylist()]


def _of_set(path: Path) -> list[str | None]:
    return [item.text for item in read_items(EvaluationSet(path=str(path), fields=("text",)))]


def _labelled(path: Path) -> list[str | None]:
    records = read_records(FileSettings(path=str(path)), RowCounts(), ("text", "label"), ())
    return [str(record.values["text"]) for record in records]


READERS: dict[str, Callable[[Path], list[str | None]]] = {
    "files": _of_source(lambda path: FilesSource(name="own", path=path, fields={"text": "text"})),
    "openwebtext": _of_source(OpenWebTextSource),
    "sample": _sampled,
    "dedup": _of_dedup,
    "evaluation set": _of_set,
    "labelled": _labelled,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_lies_gives_all_its_rows_or_is_refused(reader: str, tmp_path: Path) -> None:
    """Fails if a reader takes fewer or more rows than there are for all of them, or says anything but a paragraph.

    Rows that the footer has twice are there twice, and a file without row groups has none.
    """
    refused, right = set(), set()
    for name, path in lying_files(tmp_path).items():
        expected = {"the groups twice": TEXTS * 2}.get(name, TEXTS)
        try:
            assert READERS[reader](path) == expected, name
            right.add(name)
        except InputError as error:
            assert path.name in str(error) and "\n" not in str(error).strip(), name
            refused.add(name)
    assert {"nothing", "statistics"} <= right
    rows = {f"the group has {told} rows" for told in (-7, 0, 29, 31, 3 * 10**9)}
    assert rows <= refused and any("damaged" in name for name in refused)
