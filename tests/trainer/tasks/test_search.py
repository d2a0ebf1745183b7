"""Search in vectors: the same as sorting all similarities; files that cannot be trusted."""

import resource
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError
from trainer.tasks.kinds.vectors import compute_similarities
from trainer.tasks.vectors.search import check_comparable, search_exactly
from trainer.tasks.vectors.vector_files import (
    VectorFile,
    VectorOrigin,
    VectorRows,
    build_schema,
    build_table,
    create_vector_file,
)

MADE = VectorOrigin(
    model="a", by="text", pooling="mean", layers=(2,), combine="", side="first", similarity="cosine", max_length=40
)


@examples(40)
@given(
    seed=st.integers(0, 1 << 20),
    count=st.integers(1, 60),
    size=st.integers(1, 70),
    top=st.integers(1, 12),
    by=st.sampled_from(["cosine", "dot"]),
)
def test_search_is_sorting_whatever_the_blocks(seed: int, count: int, size: int, top: int, by: str) -> None:
    """Fails if the edge of a block decides what is found, or a query gets the documents of another."""
    drawn = np.random.default_rng(seed)
    vectors, queries = (drawn.normal(size=(number, 5)).astype(np.float32) for number in (count, 3))
    names = [f"d{place}" for place in range(count)]
    file = Blocks([(names[at : at + size], vectors[at : at + size]) for at in range(0, count, size)])
    run, seen = search_exactly(file, ["q1", "q2", "q3"], queries, by, top)  # type: ignore[arg-type]
    assert seen == {*names}
    for found, query in zip(run.values(), queries, strict=True):
        scores = compute_similarities(np.broadcast_to(query, vectors.shape), vectors, by).tolist()
        wanted = sorted(zip(scores, names, strict=True), reverse=True)[:top]
        assert [*found] == [name for _, name in wanted]
        assert [*found.values()] == pytest.approx([score for score, _ in wanted], abs=1e-5)


class Blocks(NamedTuple):
    """Vectors as a file gives them."""

    parts: list[tuple[list[str], Any]]
    name: str = "v.parquet"

    def iter_blocks(self) -> list[tuple[list[str], Any]]:
        """Return them."""
        return self.parts


def test_an_id_that_stands_twice_is_refused() -> None:
    """Fails if two documents become one, also from two blocks."""
    vectors = np.eye(3, dtype=np.float32)
    for parts in ([(["a", "b", "a"], vectors)], [(["a", "b", "c"], vectors), (["d", "e", "a"], vectors)]):
        with pytest.raises(InputError, match=r"v\.parquet have the same id"):
            search_exactly(Blocks(parts), ["q"], vectors[:1], "cosine", 1)  # type: ignore[arg-type]


def written(path: Path, vectors: Any, precision: str = "float32", made: VectorOrigin = MADE) -> VectorFile:
    names = [f"d{place:04d}" for place in range(len(vectors))]
    schema = build_schema(made, vectors.shape[1], precision)
    with create_vector_file(path, schema) as write:
        for start in range(0, len(vectors), 100):
            write(build_table(VectorRows(names[start : start + 100], vectors[start : start + 100]), schema))
    return VectorFile(path)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_vectors_come_back_from_their_file(tmp_path: Path, precision: str) -> None:
    """Fails if rows are mixed up, the precision is another, or what they are of is lost."""
    vectors = np.random.default_rng(1).normal(size=(250, 6)).astype(np.float32)
    file = written(tmp_path / "v.parquet", vectors, precision)
    ids, found = file.read_all()
    assert (file.num_rows, file.width, file.origin) == (250, 6, MADE)
    assert ids[-1] == "d0249" and np.array_equal(found, vectors.astype(precision).astype(np.float32))
    assert pq.read_schema(tmp_path / "v.parquet").field("vector").type == pa.list_(
        {"float32": pa.float32(), "float16": pa.float16()}[precision], 6
    )


def test_vectors_that_hold_no_numbers_are_refused(tmp_path: Path) -> None:
    """Fails if a query is answered by what cannot be compared; what is too large for float16 is no number either."""
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
    assert file.origin is None
    with pytest.raises(InputError, match="The vector of 'b' holds what is no number"):
        file.read_all()


def test_files_that_are_none_of_vectors_are_told(tmp_path: Path) -> None:
    """Fails if the user meets a traceback of Arrow."""
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
    """Fails if a wrong model's vectors are answered with, or two widths end in numpy's words."""
    one = written(tmp_path / "one.parquet", np.ones((2, 4), np.float32))
    wide = written(tmp_path / "wide.parquet", np.ones((2, 5), np.float32))
    other = written(tmp_path / "other.parquet", np.ones((2, 4), np.float32), made=replace(MADE, model="b"))
    for theirs in (wide, other):
        with pytest.raises(InputError, match="were made differently"):
            check_comparable(one, theirs)
    assert check_comparable(one, one) == "cosine"


def test_a_disk_that_refuses_in_the_middle_is_told(tmp_path: Path) -> None:
    """Fails if what is still to be written as the file is closed hides the paragraph behind a trace."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(InputError, match=r"Cannot write .*v\.parquet: the file is larger than is allowed here"):
            written(tmp_path / "v.parquet", np.ones((900, 16), np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
