"""Files of bounded size: their bounds, and that they depend on rows alone."""

import hashlib
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from flows.export.exported import ExportedFile, SplitWriter, compute_row_sizes

SCHEMA = pa.schema([("text", pa.large_string()), ("ids", pa.list_(pa.uint16())), ("kept", pa.bool_())])


@cache
def rows(number: int, seed: int = 1) -> pa.RecordBatch:
    draw = np.random.default_rng(seed)
    texts = [draw.bytes(int(length)).hex() for length in draw.integers(0, 400, number)]
    ids = [draw.integers(0, 60_000, int(length)).tolist() for length in draw.integers(0, 90, number)]
    return pa.record_batch([texts, ids, [n % 3 == 0 for n in range(number)]], schema=SCHEMA)


def written(folder: Path, batches: list[pa.RecordBatch]) -> list[ExportedFile]:
    folder.mkdir(parents=True)
    files = SplitWriter(folder, "train", SCHEMA, file_bytes=80_000, group_bytes=12_000)
    for batch in batches:
        files.add(batch)
    return files.finish()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[ExportedFile]]:
    folder = tmp_path_factory.mktemp("whole") / "a"
    return folder, written(folder, [rows(300)])


@examples(6)
@given(cuts=st.lists(st.integers(0, 300), max_size=9))
def test_files_depend_on_rows_and_not_on_batches(
    whole: tuple[Path, list[ExportedFile]], tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    """Fails if a row group or a file ends where a batch does."""
    bounds = [0, *sorted(cuts), 300]
    batches = [rows(300).slice(first, last - first) for first, last in pairwise(bounds)]
    again = written(tmp_path_factory.mktemp("cut") / "a", batches)
    assert again == whole[1]


def test_files_are_bounded_and_named_by_their_number(whole: tuple[Path, list[ExportedFile]]) -> None:
    """Fails if a file or row group is larger than asked, a row is lost or moved, or a file is told wrong."""
    folder, files = whole
    assert len(files) > 2
    assert [file.path for file in files] == [f"data/train-{n:05}-of-{len(files):05}.parquet" for n in range(len(files))]
    assert sorted(path.name for path in (folder / "data").iterdir()) == [Path(file.path).name for file in files]
    tables = []
    for file in files:
        data = (folder / file.path).read_bytes()
        assert (file.size_bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert file.size_bytes <= 80_000
        read = pq.ParquetFile(folder / file.path)
        assert file.rows == read.metadata.num_rows
        tables.append(read.read())
        groups = [read.read_row_group(n).combine_chunks().to_batches()[0] for n in range(read.num_row_groups)]
        assert all(int(compute_row_sizes(group).sum()) <= 12_000 for group in groups)
        assert sum(int(compute_row_sizes(group).sum()) for group in groups) == file.row_bytes
    assert pa.concat_tables(tables).equals(pa.Table.from_batches([rows(300)]))


def test_a_row_larger_than_any_bound_is_written(tmp_path: Path) -> None:
    """Fails if it is lost, or joined to others."""
    long = pa.record_batch([["a", "b" * 500_000, "c"], [[1], [2], []], [True, False, True]], schema=SCHEMA)
    files = written(tmp_path / "a", [long])
    read = [pq.ParquetFile(tmp_path / "a" / file.path) for file in files]
    assert [file.metadata.row_group(n).num_rows for file in read for n in range(file.num_row_groups)] == [1, 1, 1]
    assert pq.read_table(tmp_path / "a" / "data").equals(pa.Table.from_batches([long]))


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert written(tmp_path / "a", [rows(3).slice(0, 0)]) == []
    assert [*(tmp_path / "a").rglob("*")] == []
