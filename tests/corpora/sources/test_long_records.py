"""A record of many slices is read once, not once for each slice: what a file costs grows with its size.

The law: a slice reads its own bytes and what begins in them. A slice in which nothing begins looks for no end.
"""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora.sources.contract import RawFile, Source, Tally
from corpora.sources.files.source import FilesSource
from corpora.sources.stories import StoriesSource

LONG = 6_000_000  # bytes: six slices
WORDS = b"the ferry was late " * (LONG // 19)
SHORT = 25  # records before the long one
MOST = 3 * LONG  # each byte by its own slice, and once more by the slice that the record begins in


def warc(name: str) -> bytes:
    block = np.random.default_rng(5).bytes(LONG)
    records = [*[b"a"] * SHORT, block]
    heads = (b"WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: %d\r\n\r\n" % len(record) for record in records)
    return b"".join(gzip.compress(h + r + b"\r\n\r\n") for h, r in zip(heads, records, strict=True))


def lines(name: str) -> bytes:
    begin, end = {".jsonl": (b'{"text":"', b'"}'), ".tsv": (b"1\t", b"")}.get(Path(name).suffix, (b"", b"\n"))
    head = b"key\ttext\n" if name.endswith(".tsv") else b""
    return head + b"\n".join([*[begin + b"a short one" + end] * SHORT, begin + WORDS + end, b""])


@pytest.mark.parametrize(
    ("name", "make", "of"),
    [
        ("a.jsonl", lines, lambda path: FilesSource(name="a", path=path)),
        ("a.jsonl", lines, lambda path: FilesSource(name="a", path=path, max_record_bytes=100_000)),
        ("a.tsv", lines, lambda path: FilesSource(name="a", path=path, quote="", delimiter="\t")),
        ("a.txt", lines, lambda path: StoriesSource(path=path)),
        ("a.txt", lines, lambda path: StoriesSource(path=path, form="blank-line", max_record_bytes=100_000)),
        ("a.warc.gz", warc, lambda path: FilesSource(name="a", path=path)),
    ],
)
def test_a_long_record_is_read_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    make: Callable[[str], bytes],
    of: Callable[[str], Source],
) -> None:
    """Fails if each slice of a record looks for its end, so that ten times the size costs a hundred times as much."""
    path = tmp_path / name
    path.write_bytes(make(name))
    source, read = of(str(path)), [0]

    class Counted(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            size = super().readinto(buffer)
            read[0] += size or 0
            return size

    monkeypatch.setattr(Path, "open", lambda self, mode="r": io.BufferedReader(Counted(self)))
    file = RawFile(name=name, sha256="0" * 64, size_bytes=path.stat().st_size, path=str(path))
    slices = source.slices(file)
    records = [record for piece in slices for record in source.records(piece, Tally())]
    assert len(slices) > LONG // 1_000_000 and len(records) == 1 + SHORT
    assert LONG < read[0] < MOST
