"""Content: the same however rows are cut and stored, another one whenever a row differs."""

import itertools
import tracemalloc
from collections.abc import Callable, Iterable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

from corpora.kernels.hash128 import PRIME
from corpora.store.digests import content as content_module
from corpora.store.digests import content_kernels
from corpora.store.digests.content import BASE, Content, compute_content, compute_content_plain, sum_contents

Value = st.SearchStrategy[Any]
Column = tuple[pa.DataType, Value]  # a type, and values of it


def integers(kind: pa.DataType) -> Column:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return kind, st.sampled_from([0, 1, low, high]) | st.integers(low, high)


LEAVES: list[Column] = [
    *map(integers, [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
    *map(integers, [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text("aé\0", max_size=3)),
    (pa.large_string(), st.text("ab", max_size=3)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.struct([]), st.just({})),
]


def nullable(values: Value) -> Value:
    return st.none() | values


def nested(inner: st.SearchStrategy[Column]) -> st.SearchStrategy[Column]:
    """Lists of every kind and structs of inner columns."""
    lists = inner.flatmap(
        lambda column: st.sampled_from(
            [
                (pa.list_(column[0]), st.lists(nullable(column[1]), max_size=3)),
                (pa.large_list(column[0]), st.lists(nullable(column[1]), max_size=3)),
                (pa.list_(column[0], 2), st.lists(nullable(column[1]), min_size=2, max_size=2)),
            ]
        )
    )
    return lists | st.lists(inner, min_size=1, max_size=3).map(struct)


def struct(columns: list[Column]) -> Column:
    kind = pa.struct([pa.field(f"f{number}", each) for number, (each, _) in enumerate(columns)])
    return kind, st.fixed_dictionaries({f"f{number}": nullable(values) for number, (_, values) in enumerate(columns)})


columns = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=4)


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Two tables of one schema, often nearly alike."""
    drawn = draw(st.lists(columns, min_size=1, max_size=3))
    schema = pa.schema([pa.field(f"c{number}", kind) for number, (kind, _) in enumerate(drawn)])
    row = st.tuples(*(nullable(values) for _, values in drawn))
    one = draw(st.lists(row, max_size=6))
    other = draw(st.lists(st.sampled_from(one) | row if one else row, max_size=6))
    return table_of(schema, one), table_of(schema, other)


def table_of(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    arrays = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def rebuilt(table: pa.Table) -> pa.Table:
    """The same rows in buffers of their own."""
    return pa.Table.from_pylist(table.to_pylist(), schema=table.schema)


def total(contents: Iterable[Content]) -> Content:
    return reduce(add, contents, Content())


@given(two_tables(), st.data())
@examples(120)
def test_however_rows_are_cut_their_contents_add_up(tables: tuple[pa.Table, pa.Table], data: st.DataObject) -> None:
    table = tables[0]
    inner = data.draw(st.lists(st.integers(0, table.num_rows), max_size=4))
    cuts = [0, *sorted(inner), table.num_rows]
    slices = [table.slice(start, stop - start) for start, stop in itertools.pairwise(cuts)]
    whole = compute_content(table)
    assert whole.rows == table.num_rows
    assert total(map(compute_content, slices)) == whole
    assert total(compute_content(rebuilt(piece)) for piece in slices) == whole
    assert compute_content(pa.concat_tables(slices)) == whole
    assert total(compute_content(batch) for piece in slices for batch in piece.to_batches(max_chunksize=2)) == whole


def by_kernel(table: pa.Table, piece_bytes: int = 1 << 22, room_bytes: int = 1 << 18) -> Content:
    """`compute_content` where no rows are too few or too long for the kernel, but those that its room does not hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_module, "MIN_KERNEL_ROWS", 0)
        patch.setattr(content_module, "MAX_MEAN_ROW_BYTES", 1 << 40)
        patch.setattr(content_module, "PIECE_BYTES", piece_bytes)
        patch.setattr(content_module, "KERNEL_ROW_BYTES", room_bytes)
        return compute_content(table)


@given(two_tables(), st.data())
@examples(120)
def test_the_kernel_digests_as_the_loop_does(tables: tuple[pa.Table, pa.Table], data: st.DataObject) -> None:
    """Fails if a type, a null, a slice or an empty column is read otherwise by the kernel."""
    table = data.draw(st.sampled_from([tables[0], pa.concat_tables(tables), pa.concat_tables([*tables, *tables])]))
    table = data.draw(st.sampled_from([table, table.combine_chunks()]))
    piece = table.slice(*data.draw(st.tuples(st.integers(0, 5), st.integers(0, 30))))
    assert by_kernel(piece) == compute_content_plain(piece)
    assert by_kernel(piece, data.draw(st.integers(1, 200)), data.draw(st.integers(24, 80))) == compute_content_plain(
        piece
    )


# The bytes of a row of one binary column: the seed, its validity, its length, and its own.
OF_A_ROW = 16 + 1 + 8
ROW_BYTES = sorted(
    {edge + by for edge in (26, 32, 64, 96, 128, 160, 192, 224, 240, 512, 1024, 1088, 2048) for by in (-1, 0, 1)}
)


@given(st.lists(st.sampled_from(ROW_BYTES) | st.integers(OF_A_ROW, 3000), max_size=60), st.integers(0, 2**32))
@example(ROW_BYTES, 0)
@examples(100)
def test_rows_of_any_length_are_digested_as_the_loop_does(sizes: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = [draw.bytes(size - OF_A_ROW) for size in sizes]
    table = pa.table({"a": pa.array(values, pa.binary())})
    assert by_kernel(table) == compute_content_plain(table)
    nested = pa.table({"a": pa.array([[value, None, value[:5]] for value in values], pa.list_(pa.large_binary()))})
    assert by_kernel(nested) == compute_content_plain(nested)


@pytest.mark.parametrize("offset", [-5, 1 << 30], ids=["before the data", "after the data"])
@pytest.mark.parametrize("row", [1, 30, 59])
def test_a_damaged_column_is_digested_as_the_loop_does(row: int, offset: int) -> None:
    """Fails if the kernel reads what is not there, which may end the process."""
    offsets = np.arange(61, dtype=np.int32)
    offsets[row] = offset
    column = pa.Array.from_buffers(pa.binary(), 60, [None, pa.py_buffer(offsets), pa.py_buffer(bytes(60))])
    assert by_kernel(pa.table({"a": column})) == compute_content_plain(pa.table({"a": column}))


def test_rows_of_no_columns_are_rows() -> None:
    batch = pa.record_batch({"a": [1] * 50}).select([])
    assert compute_content(batch) == compute_content_plain(batch)
    assert compute_content(batch).rows == 50


@pytest.mark.parametrize(
    ("lengths", "calls"),
    [([10] * 100, 1), ([10] * 5, 0), ([1 << 17] * 50, 0), ([10] * 50 + [1 << 18] + [10] * 50, 2)],
    ids=["short rows", "few rows", "long rows", "one long row among short ones"],
)
def test_the_kernel_takes_many_short_rows(lengths: list[int], calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if rows go the slower way, or the other tests compared the loop with itself."""
    called, kernel = [], content_kernels.digest_rows

    def counted(*arguments: Any) -> Any:
        called.append(arguments)
        return kernel(*arguments)

    monkeypatch.setattr(content_kernels, "digest_rows", counted)
    table = pa.table({"a": ["x" * length for length in lengths]})
    assert compute_content(table) == compute_content_plain(table)
    assert len(called) == calls


def test_memory_does_not_grow_with_the_table() -> None:
    """Fails if the canonical form of all rows is held at once: that of these takes 200 MB."""
    items = pa.BooleanArray.from_buffers(pa.bool_(), 100_000_000, [None, pa.py_buffer(bytes(12_500_000))])
    table = pa.table({"a": pa.ListArray.from_arrays(pa.array(np.arange(0, 100_000_001, 1000, np.int32)), items)})
    tracemalloc.start()
    try:
        content = compute_content(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert content.rows == 100_000
    assert peak < 20 * content_module.PIECE_BYTES < 100_000_000


@given(two_tables())
@examples(200)
def test_other_rows_have_another_content(tables: tuple[pa.Table, pa.Table]) -> None:
    one, other = tables
    if one.equals(other):
        assert compute_content(one) == compute_content(other) or has_two_zeros(one, other)
    else:
        assert compute_content(one) != compute_content(other)


def has_two_zeros(one: pa.Table, other: pa.Table) -> bool:
    """Arrow calls 0.0 and -0.0 equal; they are other bytes and another content."""
    return repr(one.to_pylist()) != repr(other.to_pylist())


def test_the_digest_is_a_polynomial_in_the_rows() -> None:
    table = pa.table({"a": ["x", "y", "z"]})
    first, second, third = (compute_content(table.slice(row, 1)).digest for row in range(3))
    assert compute_content(table) == Content(3, ((first * BASE + second) * BASE + third) % PRIME)


@pytest.mark.parametrize(
    ("kind", "of"),
    [(pa.string(), str), (pa.large_binary(), str.encode), (pa.list_(pa.string()), list)],
    ids=["text", "bytes", "list of text"],
)
def test_nothing_moves_to_a_neighbour_unnoticed(kind: pa.DataType, of: Callable[[str], Any]) -> None:
    def content(kind: pa.DataType, *columns: list[Any]) -> Content:
        return compute_content(
            pa.table([pa.array(column, kind) for column in columns], names=["x", "y"][: len(columns)])
        )

    cuts = [(of(left), of(right)) for left, right in [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", "")]]
    columns = {content(kind, [left], [right]) for left, right in cuts}
    rows = {content(kind, [left, right]) for left, right in cuts}
    items = {content(pa.list_(kind), [[left, right]]) for left, right in cuts}
    assert len(columns) == len(rows) == len(items) == 4


def test_names_types_and_nullability_count_and_metadata_does_not() -> None:
    def schema_of(*fields: pa.Field) -> Content:
        return compute_content(pa.table([pa.array([1], field.type) for field in fields], schema=pa.schema(fields)))

    plain = pa.field("a", pa.int64())
    others = [pa.field("b", pa.int64()), pa.field("a", pa.uint64()), pa.field("a", pa.int64(), nullable=False)]
    assert len({schema_of(plain), *(schema_of(other) for other in others)}) == 4
    assert schema_of(plain, others[0]) != schema_of(others[0], plain)
    assert schema_of(plain.with_metadata({"PARQUET:field_id": "1"})) == schema_of(plain)
    table = pa.table({"a": [1]})
    assert compute_content(table.replace_schema_metadata({"pandas": "{}"})) == compute_content(table)


def test_what_stands_under_a_null_does_not_count() -> None:
    def hidden(kind: pa.DataType, *values: bytes) -> Content:
        validity = pa.py_buffer(b"\1")  # row 0 of two is there, row 1 is not
        return compute_content(
            pa.table({"a": pa.Array.from_buffers(kind, 2, [validity, *(pa.py_buffer(value) for value in values)])})
        )

    assert hidden(pa.int32(), b"\1\0\0\0\2\0\0\0") == hidden(pa.int32(), b"\1\0\0\0\0\0\0\0")
    assert hidden(pa.binary(2), b"abcd") == hidden(pa.binary(2), b"ab\0\0")
    offsets = b"\0\0\0\0\1\0\0\0\3\0\0\0"
    assert hidden(pa.binary(), offsets, b"abc") == hidden(pa.binary(), offsets, b"axy")
    assert hidden(pa.int32(), b"\2\0\0\0\0\0\0\0") != hidden(pa.int32(), b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.dictionary(pa.int8(), pa.string()), pa.decimal128(4, 1)])
def test_a_type_without_a_canonical_form_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="no canonical form"):
        compute_content(pa.table({"a": pa.array([None], kind)}))


@given(st.integers(0, 2**40), st.integers(0, PRIME - 1))
def test_content_is_read_as_it_is_written(rows: int, digest: int) -> None:
    assert Content.parse(str(Content(rows, digest))) == Content(rows, digest)


EVERYTHING = pa.table(
    {
        "int": pa.array([1, None, -3], pa.int32()),
        "float": pa.array([0.5, None, float("nan")], pa.float32()),
        "bool": [True, None, False],
        "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "text": pa.array(["", None, "Straße"], pa.large_string()),
        "list": pa.array([[1, None], None, []], pa.list_(pa.uint16())),
        "bools": pa.array([[True], [], None], pa.large_list(pa.bool_())),
        "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}], pa.struct({"x": "i8", "y": "str"})),
    }
)


def test_golden_content() -> None:
    assert str(compute_content(EVERYTHING)) == "3.334f49eebd14ba4bd19aca4770acb7db"


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, PRIME - 1)), max_size=4))
def test_a_sum_is_the_polynomial_of_all_rows(tables: list[tuple[int, int]]) -> None:
    """Fails if a power of the base is not the one that `pow` gives."""
    digest = 0
    for rows, own in tables:
        digest = (digest * pow(BASE, rows, PRIME) + own) % PRIME
    assert sum_contents(Content(*table) for table in tables) == Content(sum(rows for rows, _ in tables), digest)
