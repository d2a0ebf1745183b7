"""Samples of raw files: how many records there are is known within bounds, and the sample is from all over them."""

import base64
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.sources.contract import RawFile
from corpora.sources.files.source import FilesSource
from flows.run.estimates import sampling
from flows.run.estimates.sampling import SourceSample, sample_source


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that files of a megabyte are as large for a sample as gigabytes are."""
    monkeypatch.setattr(sampling, "LEAST_READ", 400_000)
    monkeypatch.setattr(sampling, "KEPT", 100_000)


def texts(number: int, seed: int = 7) -> Iterator[str]:
    """Texts that do not compress away, of lengths that differ, longer towards the end."""
    draw = random.Random(seed)
    for place in range(number):
        yield base64.b85encode(draw.randbytes(draw.randint(20, 600) + place // 20)).decode()


def sample(folder: Path, **settings: str) -> SourceSample:
    source = FilesSource(name="own", path=str(folder), **settings)  # type: ignore[arg-type]
    files = [
        RawFile(name=name, sha256=name, size_bytes=path.stat().st_size, path=str(path)) for name, path in source.files()
    ]
    found = sample_source(source, files)
    again = sample_source(source, files)
    assert replace(found, reading_seconds=0.0) == replace(again, reading_seconds=0.0)
    return found


def totals(found: SourceSample) -> tuple[float, float]:
    return found.records, found.characters


def close(found: SourceSample, records: int, characters: int, within: float = 0.1) -> None:
    """The sample is a part, and what it says of the whole is right."""
    assert not found.whole and not found.cut_short
    seen = totals(found)
    assert abs(seen[0] / records - 1) < within, seen
    assert abs(seen[1] / characters - 1) < within, seen
    assert found.sampled_characters < 2.5 * sampling.KEPT


def test_little_is_read_whole(tmp_path: Path) -> None:
    """Fails where a folder that could be read whole is only estimated."""
    lines = list(texts(50))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in lines))
    (tmp_path / "b.txt").write_text("one file")
    found = sample(tmp_path)
    assert found.whole and totals(found) == (51, sum(map(len, lines)) + len("one file"))


def test_many_small_files_are_sampled_from_all_over(tmp_path: Path) -> None:
    """Fails where the first files stand for all, or their number is guessed."""
    lines = list(texts(2_000))
    for number, text in enumerate(lines):
        (tmp_path / f"{number:05}.txt").write_text(text)
    found = sample(tmp_path)
    close(found, 2_000, sum(map(len, lines)))
    names = sorted(int(record.locator.file[:5]) for record in found.sampled)
    assert names[0] < 200 and names[-1] > 1_800 and 900 < names[len(names) // 2] < 1_100


@pytest.mark.parametrize(("name", "within"), [("a.jsonl", 0.1), ("a.jsonl.gz", 0.2), ("a.parquet", 0.1)])
def test_a_large_file(name: str, within: float, tmp_path: Path) -> None:
    """Fails where slices are left out of the count, what was read of one is taken for all of it, or bytes that were
    read ahead, or the place in a file of columns, for what was read. Of a packed file only the beginning is read."""
    lines = list(texts(14_000))
    data = "".join(json.dumps({"text": text}) + "\n" for text in lines).encode()
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"text": lines}), tmp_path / name, row_group_size=12_000)
    else:
        (tmp_path / name).write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
    close(sample(tmp_path), 14_000, sum(map(len, lines)), within)


def test_files_of_several_kinds_and_sizes(tmp_path: Path) -> None:
    """Fails where a few large files hide many small ones, or one format another."""
    lines = list(texts(9_000))
    for number, text in enumerate(lines[:1_000]):
        (tmp_path / f"{number:05}.md").write_text(text)
    with (tmp_path / "large.jsonl").open("w") as stream:
        stream.writelines(json.dumps({"text": text}) + "\n" for text in lines[1_000:])
    close(sample(tmp_path), 9_000, sum(map(len, lines)))


def test_a_file_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    """Fails where one bad file ends a plan, or counts as one that holds something."""
    for number, text in enumerate(texts(10)):
        (tmp_path / f"{number}.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": text}).encode()))
    (tmp_path / "3.jsonl.gz").write_bytes(gzip.compress(b"x" * 9_000)[:-9])
    found = sample(tmp_path)
    assert found.unreadable == 1 and totals(found)[0] == pytest.approx(9)
