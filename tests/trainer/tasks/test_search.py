"""Search in vectors: the same as sorting all similarities, whatever the blocks; files that cannot be trusted."""

import os
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError
from trainer.tasks.embeddings import VectorFile, VectorRows, VectorsMade, new_vectors, vector_schema, vector_table
from trainer.tasks.kinds.vectors import similarities
from trainer.tasks.vectors.search import check_comparable, exact_search, indexed_search

MADE = VectorsMade(
    model="a", by="text", pooling="mean", layers=(2,), combine="", side="first", similarity="cosine", max_length=40
)


def blocks(vectors: Any, size: int) -> Iterator[tuple[list[str], Any]]:
    names = [f"d{place % 7}.{place}" for place in range(len(vectors))]
    for start in range(0, len(vectors), size):
        yield names[start : start + size], vectors[start : start + size]


def sorted_out(vectors: Any, query: Any, by: str, top: int) -> dict[str, float]:
    """By sorting all similarities."""
    [(names, _)] = blocks(vectors, len(vectors))
    scores = similarities(np.broadcast_to(query, vectors.shape), vectors, by).tolist()
    best = sorted(zip(scores, names, strict=True), key=lambda pair: (np.float32(pair[0]), pair[1]), reverse=True)
    return {name: score for score, name in best[:top]}


@examples(60)
@given(
    seed=st.integers(0, 1 << 20),
    count=st.integers(1, 60),
    size=st.integers(1, 70),
    top=st.integers(1, 12),
    by=st.sampled_from(["cosine", "dot"]),
    values=st.sampled_from([2, 1_000]),
)
def test_search_is_sorting_whatever_the_blocks(
    seed: int, count: int, size: int, top: int, by: str, values: int
) -> None:
    """Fails where the edge of a block, rounding, or ties (many with two values, zero vectors too) decide otherwise."""
    drawn = np.random.default_rng(seed)
    vectors = (drawn.integers(0, values, (count, 5)) / values).astype(np.float32)
    queries = (drawn.integers(0, values, (3, 5)) / values).astype(np.float32)
    run = exact_search(blocks(vectors, size), ["q1", "q2", "q3"], queries, by, top)
    for name, query in zip(("q1", "q2", "q3"), queries, strict=True):
        wanted = sorted_out(vectors, query, by, top)
        assert list(run[name].items()) == list(wanted.items())


def test_equal_vectors_are_ranked_by_id_also_where_many_are() -> None:
    """Fails where one of thousands of equal vectors is found by its place, or sums of another order set them apart."""
    vectors = np.full((5_000, 33), 0.1, np.float32)
    run = exact_search(blocks(vectors, 777), ["q"], np.full((1, 33), 0.3, np.float32), "cosine", 3)
    [(names, _)] = blocks(vectors, 5_000)
    assert list(run["q"]) == sorted(names, reverse=True)[:3] and len({*run["q"].values()}) == 1


def test_an_id_that_stands_twice_is_refused() -> None:
    """Fails where two documents become one, also from two blocks."""
    vectors = np.eye(3, dtype=np.float32)
    with pytest.raises(InputError, match="have the same id"):
        exact_search([(["a", "b", "a"], vectors)], ["q"], vectors[:1], "cosine", 1)
    with pytest.raises(InputError, match="have the same id"):
        exact_search([(["a", "b", "c"], vectors), (["d", "e", "a"], vectors)], ["q"], vectors[:1], "cosine", 1)


def written(path: Path, vectors: Any, precision: str = "float32", made: VectorsMade = MADE) -> VectorFile:
    names = [f"d{place:04d}" for place in range(len(vectors))]
    schema = vector_schema(made, vectors.shape[1], precision)
    with new_vectors(path, schema) as write:
        for start in range(0, len(vectors), 100):
            write(vector_table(VectorRows(names[start : start + 100], vectors[start : start + 100]), schema))
    return VectorFile(path)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_vectors_come_back_from_their_file(tmp_path: Path, precision: str) -> None:
    """Fails where rows are mixed up, the precision is another, or what they are of is lost."""
    vectors = np.random.default_rng(1).normal(size=(250, 6)).astype(np.float32)
    file = written(tmp_path / "v.parquet", vectors, precision)
    ids, found = file.whole()
    assert (file.num_rows, file.width, file.made) == (250, 6, MADE)
    assert ids[-1] == "d0249" and np.array_equal(found, vectors.astype(precision).astype(np.float32))
    assert pq.read_schema(tmp_path / "v.parquet").field("vector").type == pa.list_(
        {"float32": pa.float32(), "float16": pa.float16()}[precision], 6
    )


def test_an_index_finds_nearly_all_of_them(tmp_path: Path) -> None:
    """Fails where its places are not the file's, or its own rounded similarities are told."""
    pytest.importorskip("usearch")
    drawn = np.random.default_rng(2)
    vectors = drawn.normal(size=(2_000, 16)).astype(np.float32)
    queries = drawn.normal(size=(20, 16)).astype(np.float32)
    file = written(tmp_path / "v.parquet", vectors)
    names = [f"q{place}" for place in range(20)]
    for by in ("cosine", "dot"):
        exact = exact_search(file.blocks(), names, queries, by, 10)
        found = indexed_search(file, names, queries, by, 10)
        shared = [len(exact[name].keys() & found[name].keys()) for name in names]
        assert sum(shared) > 190, shared
        assert all(
            found[name][each] == exact[name][each] for name in names for each in exact[name].keys() & found[name]
        )


def test_an_index_is_kept_as_long_as_its_vectors_are(tmp_path: Path) -> None:
    """Fails where it is made anew for each search, or the one of other vectors answers."""
    pytest.importorskip("usearch")
    drawn = np.random.default_rng(3)
    for number, count in enumerate((150, 150, 90)):
        vectors = drawn.normal(size=(count, 8)).astype(np.float32)
        file = written(tmp_path / "v.parquet", vectors)
        kept = tmp_path / "v.parquet.cosine.usearch"
        os.utime(tmp_path / "v.parquet", ns=(number * 10**9, 2 * 10**18 + number * 10**9))
        first = indexed_search(file, ["q"], vectors[:1], "cosine", 3)
        assert next(iter(first["q"])) == "d0000"
        os.utime(kept, ns=(0, 2 * 10**18 + number * 10**9))
        made = kept.stat().st_ino
        assert indexed_search(file, ["q"], vectors[:1], "cosine", 3) == first and kept.stat().st_ino == made


def test_vectors_that_hold_no_numbers_are_refused(tmp_path: Path) -> None:
    """Fails where a query is answered by what cannot be compared; what is too large for float16 is no number either."""
    bad = np.ones((3, 2), np.float32)
    bad[1, 0] = np.nan
    with pytest.raises(InputError, match="The vector of 'd0001' holds what is no number"):
        written(tmp_path / "v.parquet", bad)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"none of float16.*Ask for float32"):
        written(tmp_path / "v.parquet", np.full((1, 2), 1e6, np.float32), "float16")
    column = pa.FixedSizeListArray.from_arrays(pa.array(bad.ravel()), 2)
    pq.write_table(pa.table({"id": ["a", "b", "c"], "vector": column}), tmp_path / "theirs.parquet")
    file = VectorFile(tmp_path / "theirs.parquet")
    assert file.made is None
    with pytest.raises(InputError, match="The vector of 'b' holds what is no number"):
        file.whole()


def test_files_that_are_none_of_vectors_are_told(tmp_path: Path) -> None:
    """Fails where the user meets a traceback of Arrow."""
    pq.write_table(pa.table({"id": ["a"], "vector": [[1.0, 2.0]]}), tmp_path / "lists.parquet")
    with pytest.raises(InputError, match="vectors of different lengths"):
        VectorFile(tmp_path / "lists.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet at all", encoding="utf-8")
    with pytest.raises(InputError, match=r"text\.parquet cannot be read as Parquet"):
        VectorFile(tmp_path / "text.parquet")
    good = written(tmp_path / "v.parquet", np.ones((300, 4), np.float32)).path.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(good[:500])
    with pytest.raises(InputError, match=r"cut\.parquet cannot be read as Parquet"):
        VectorFile(tmp_path / "cut.parquet")


def test_vectors_of_two_models_are_not_compared(tmp_path: Path) -> None:
    """Fails where a wrong model's vectors are answered with, or two widths end in numpy's words."""
    one = written(tmp_path / "one.parquet", np.ones((2, 4), np.float32))
    wide = written(tmp_path / "wide.parquet", np.ones((2, 5), np.float32))
    other = written(tmp_path / "other.parquet", np.ones((2, 4), np.float32), made=replace(MADE, model="b"))
    for theirs in (wide, other):
        with pytest.raises(InputError, match="were made differently"):
            check_comparable(one, theirs)
    assert check_comparable(one, one) == "cosine"


def test_a_disk_that_refuses_in_the_middle_is_told(tmp_path: Path) -> None:
    """Fails where what is still to be written as the file is closed hides the paragraph behind a trace."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(InputError, match=r"Cannot write .*v\.parquet: the file is larger than is allowed here"):
            written(tmp_path / "v.parquet", np.ones((900, 16), np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
