"""Samples of raw files: how many records there are is known within bounds, and the sample is from all over them."""

import base64
import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.sources.contract import RawFile
from corpora.sources.files.source import FilesSource
from flows.run.estimates.sampling import SourceSample, sample_source

READ_BYTES = 400_000  # so that files of a megabyte are as large for a sample as gigabytes are


def texts(number: int, growth: float = 0.05) -> list[str]:
    """Texts that do not compress away, of lengths that differ, longer towards the end by the growth."""
    draw = random.Random(7)
    drawn = (draw.randbytes(draw.randint(20, 600) + int(growth * place)) for place in range(number))
    return [base64.b85encode(data).decode() for data in drawn]


def lines(some: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in some).encode()


def write(folder: Path, kind: str, some: list[str]) -> None:
    """Write texts as files of a kind."""
    if kind == "parquet":
        pq.write_table(pa.table({"text": some}), folder / "a.parquet", row_group_size=1_000)
    elif kind == "packed":
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(some), 1))
    else:
        for number, text in enumerate(some[:2_000]):
            (folder / f"{number:05}.md").write_text(text)
        (folder / "large.jsonl").write_bytes(lines(some[2_000:]))


def sample(folder: Path) -> SourceSample:
    source = FilesSource(name="own", path=str(folder))
    files = [
        RawFile(name=name, sha256=name, size_bytes=path.stat().st_size, path=str(path)) for name, path in source.files()
    ]
    found, again = (sample_source(source, files, read_bytes=READ_BYTES) for _ in range(2))
    assert replace(found, reading_seconds=0.0) == replace(again, reading_seconds=0.0)
    return found


@pytest.mark.parametrize("kind", ["parquet", "packed", "of two kinds"])
def test_what_a_part_says_of_the_whole_is_right(kind: str, tmp_path: Path) -> None:
    """Fails if slices are left out of the count, what was read of one is taken for all of it, bytes that were read
    ahead, or the place in a file of columns, for what was read, or one kind of file hides another."""
    some = texts(10_000, 0.0 if kind == "packed" else 0.05)  # of a packed file only the beginning is read
    write(tmp_path, kind, some)
    found = sample(tmp_path)
    assert found.records == pytest.approx(10_000, rel=0.2)
    assert found.characters == pytest.approx(sum(map(len, some)), rel=0.2)
    assert not found.cut_short and len(found.sampled) < 6_000
    assert len({record.locator.file for record in found.sampled}) > 40 or kind != "of two kinds"


def test_little_is_read_whole_and_a_file_that_cannot_be_read_holds_nothing(tmp_path: Path) -> None:
    """Fails if a folder that could be read whole is only estimated, or one bad file ends a plan."""
    some = texts(50)
    (tmp_path / "a.jsonl").write_bytes(lines(some))
    (tmp_path / "b.txt").write_text("one file")
    found = sample(tmp_path)
    assert (found.records, found.characters) == (51, sum(map(len, some)) + len("one file"))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"x" * 9_000)[:-9])
    assert sample(tmp_path).records == pytest.approx(51, rel=0.01)
