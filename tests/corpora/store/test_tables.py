"""Tables read: what is asked for and no more, in a folder and in an object store; a flipped bit is named, not read."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import LONG

from corpora.store import tables
from corpora.store.damage import Damaged
from corpora.store.digests.arrow_layout import TableChecks
from corpora.store.digests.content import compute_content
from corpora.store.ledger import Ledger
from corpora.store.manifest import Manifest, Part, PartRecord, read_checks, read_part_record
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from corpora.store.tables import (
    compute_slice_contents,
    find_key_rows,
    map_part_table,
    read_file,
    read_part_rows,
    read_part_table,
)

SCHEMA = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("text", pa.large_string()),
        pa.field("words", pa.list_(pa.int32())),
        pa.field("place", pa.struct([pa.field("file", pa.string()), pa.field("offset", pa.int64())])),
        pa.field("flags", pa.large_list(pa.bool_())),
        pa.field("id", pa.binary(16), nullable=False),
    ]
)
BUCKET = "cloze-tests"
SIZES = (40, 1, 0, 25, 60)  # rows of the record batches


def rows_of(number: int, first: int) -> list[dict[str, Any]]:
    return [
        {
            "key": 10 * row,
            "text": None if row % 7 == 0 else f"row {row} " * (row % 5),
            "words": list(range(row % 4)),
            "place": {"file": f"f{row}", "offset": row},
            "flags": [True, False] * (row % 3),
            "id": row.to_bytes(16, "little"),
        }
        for row in range(first, first + number)
    ]


def batches() -> Iterator[pa.RecordBatch]:
    first = 0
    for size in SIZES:
        yield pa.RecordBatch.from_pylist(rows_of(size, first), SCHEMA)
        first += size


def build(writer: PartWriter, plan: PartPlan) -> Ledger:
    with writer.create_table("rows", SCHEMA, plan.job, sorted_by="key") as sink:
        for batch in batches():
            sink.write(batch)
    with writer.create_table("none", SCHEMA) as sink:
        sink.write(SCHEMA.empty_table())
    writer.write_file("notes.txt", b"what is no table")
    return Ledger()


def put_parts(place: Place, number: int, compression: str | None = "zstd") -> Manifest:
    plans = tuple(PartPlan(name=f"part{n or ''}", key=n, job=compression) for n in range(number))
    fields: dict[str, Any] = {"settings": {"parts": number}, "parents": (), "libraries": {}}
    return build_stage(place, Stage(kind="toys", name="rows", build_version=1, parts=plans, build=build, **fields))


def put(place: Place, compression: str | None = "zstd") -> Part:
    return put_parts(place, 1, compression).parts[0]


WHOLE = pa.Table.from_batches(batches(), SCHEMA)
KEYS = WHOLE.select(["key"]).schema


@pytest.fixture(
    scope="module", params=["folder", "folder, uncompressed", pytest.param("object store", marks=pytest.mark.server)]
)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Part]:
    """A part, and the store that holds it."""
    if request.param == "object store":
        place = Place(f"s3://{BUCKET}/tables?endpoint_override={request.getfixturevalue('s3_endpoint')}&scheme=http")
    else:
        place = Place(str(tmp_path_factory.mktemp("store")))
    return place, put(place, None if "uncompressed" in request.param else "zstd")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_columns_and_rows_are_those_of_the_table(stored: tuple[Place, Part], data: st.DataObject) -> None:
    place, part = stored
    columns = data.draw(st.none() | st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
    start = data.draw(st.integers(0, WHOLE.num_rows))
    rows = data.draw(st.none() | st.integers(start, WHOLE.num_rows + 5).map(lambda stop: range(start, stop)))
    read = list(read_part_table(place, "toys/rows", part, "rows", columns, rows))
    expected = WHOLE if rows is None else WHOLE.slice(rows.start, len(rows))
    expected = expected.select(columns if columns is not None else SCHEMA.names)
    assert pa.Table.from_batches(read, expected.schema).equals(expected)
    assert rows is None or all(batch.num_rows for batch in read)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.sets(st.integers(0, WHOLE.num_rows - 1), max_size=12))
def test_rows_far_apart_come_one_by_one(stored: tuple[Place, Part], rows: set[int]) -> None:
    """Fails if a row is another one, or comes twice where two are of one batch."""
    place, part = stored
    read = pa.Table.from_batches(read_part_table(place, "toys/rows", part, "rows", ("key",), sorted(rows)), KEYS)
    assert read.equals(WHOLE.select(["key"]).take(pa.array(sorted(rows), pa.int64())))


def test_a_table_without_rows_has_no_batches(stored: tuple[Place, Part]) -> None:
    assert list(read_part_table(stored[0], "toys/rows", stored[1], "none")) == []
    assert list(read_part_table(stored[0], "toys/rows", stored[1], "unknown")) == []


def test_the_record_says_which_rows_may_hold_a_range_of_keys(stored: tuple[Place, Part]) -> None:
    place, part = stored

    def between(first: int, last: int) -> range:
        return find_key_rows(place, "toys/rows", part, "rows", first, last)

    assert between(0, 1 << 63) == range(126)
    assert between(0, 390) == range(40) and between(391, 399) == range(0)
    assert between(390, 400) == range(41) and between(400, 410) == range(40, 66)
    assert between(5_000, 6_000) == range(0)


READERS: dict[str, Callable[[Place, Manifest, Part], object]] = {
    "all rows": lambda place, manifest, part: [*read_part_table(place, "toys/rows", part, "rows")],
    "some rows": lambda place, manifest, part: [
        *read_part_rows(place, "toys/rows", part, "rows", ["key"], np.arange(2))
    ],
    "unverified rows": lambda place, manifest, part: [*map_part_table(place, "toys/rows", part, "rows")],
    "rows of a range of keys": lambda place, manifest, part: find_key_rows(place, "toys/rows", part, "rows", 0, 9),
    "contents of slices": lambda place, manifest, part: compute_slice_contents(
        place, replace(manifest, parts=(part,)), "rows", [0, 9]
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_record_that_does_not_describe_a_file_is_damage_for_every_reader(tmp_path: Path, reader: str) -> None:
    """The law: whoever looks up a file in the record of its part raises Damaged if the record lacks it."""
    place = Place(str(tmp_path))
    manifest = put_parts(place, 1)
    [part] = manifest.parts
    stranger = replace(part, files=(replace(part.files[0], path="part/stranger.arrow"),))
    with pytest.raises(Damaged, match=r"part/stranger.arrow.*does not describe it"):
        READERS[reader](place, manifest, stranger)


def test_only_what_is_asked_for_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of one batch is a small share of a file whose other columns are large."""
    place = Place(str(tmp_path))
    wide = pa.schema([("id", pa.int64()), ("text", pa.large_string())])

    def build_wide(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.create_table("rows", wide, None) as sink:
            for _ in range(10):
                sink.write(pa.record_batch([range(100), ["x" * 9_000] * 100], wide))
        return Ledger()

    fields: dict[str, Any] = {"settings": {}, "parents": (), "libraries": {}}
    plan = PartPlan(name="part", key=0)
    part = build_stage(
        place, Stage(kind="toys", name="rows", build_version=1, parts=(plan,), build=build_wide, **fields)
    ).parts[0]
    fetched: list[int] = []
    monkeypatch.setattr(Place, "is_local", False)
    monkeypatch.setattr(Place, "open", lambda self, path: Counting(Path(self.to_full_path(path)), fetched))
    read = list(read_part_table(place, "toys/rows", part, "rows", ("id",), range(250, 260)))
    assert [batch.column("id").to_pylist() for batch in read] == [list(range(50, 60))]
    assert sum(fetched) < 3_000 < 9_000_000 < part.files[0].size_bytes


class Counting:
    """A file that counts the bytes that are asked of it."""

    def __init__(self, path: Path, fetched: list[int]) -> None:
        self._data = path.read_bytes()
        self._fetched = fetched

    def __enter__(self) -> "Counting":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def size(self) -> int:
        """Bytes of the file."""
        return len(self._data)

    def read_at(self, length: int, offset: int) -> bytes:
        """A piece of it."""
        self._fetched.append(length)
        return self._data[offset : offset + length]


@pytest.mark.parametrize("local", [True, False], ids=["mapped", "fetched"])
@pytest.mark.parametrize("compression", ["zstd", None])
def test_a_bit_flipped_anywhere_in_a_file_is_named_or_not_of_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str | None, local: bool
) -> None:
    """Whole reads name it wherever it is, but for a local file's head, which they do not use."""
    place = Place(str(tmp_path))
    part = put(place, compression)
    path = f"toys/rows/{part.files[0].path}"
    file = Path(place.to_full_path(path))
    whole = file.read_bytes()
    checks = read_checks(place, "toys/rows", part)[part.files[0].path]
    unread = range(checks.head_bytes) if local else range(checks.tail_offset, len(whole))
    if not local:
        monkeypatch.setattr(Place, "is_local", False)
        monkeypatch.setattr(Place, "open", lambda self, path: Counting(Path(self.to_full_path(path)), []))
    for offset in range(0, len(whole), 13 if LONG else 89):
        flipped = bytearray(whole)
        flipped[offset] ^= 1 << offset % 8
        file.write_bytes(flipped)
        if offset in unread:
            assert pa.Table.from_batches(read_part_table(place, "toys/rows", part, "rows")).equals(WHOLE)
        else:
            with pytest.raises(Damaged, match=path):
                list(read_part_table(place, "toys/rows", part, "rows"))


@pytest.mark.parametrize(
    "harm, what",
    [
        (lambda file: file.unlink(), "it is gone"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "bytes instead of"),
        (lambda file: file.write_bytes(b""), "0 bytes instead of"),
    ],
    ids=["gone", "cut", "empty"],
)
def test_a_file_that_is_gone_or_cut_is_named(tmp_path: Path, harm: Callable[[Path], None], what: str) -> None:
    place = Place(str(tmp_path))
    part = put(place)
    for file in (part.files[0], part.files[2]):
        harm(Path(place.to_full_path(f"toys/rows/{file.path}")))
    with pytest.raises(Damaged, match=what):
        list(read_part_table(place, "toys/rows", part, "rows"))
    with pytest.raises(Damaged, match=r"notes\.txt is damaged"):
        read_file(place, "toys/rows", part.files[2])


def rewritten(place: Place, part: Part, change: Callable[[TableChecks], TableChecks]) -> Part:
    """The part with a record that says something else of its table, sealed as any record is."""
    assert part.record is not None
    record = read_part_record(place, "toys/rows", part.record.path)
    path = part.files[0].path
    data = PartRecord(part=part, checks={**record.checks, path: change(record.checks[path])}).to_bytes()
    place.write(f"toys/rows/{part.record.path}", data)
    return read_part_record(place, "toys/rows", part.record.path).part


LIES: dict[str, Callable[[TableChecks], TableChecks]] = {
    "fewer batches": lambda checks: replace(checks, batches=checks.batches[:-1]),
    "no batches": lambda checks: replace(checks, batches=()),
    "a batch twice": lambda checks: replace(checks, batches=(*checks.batches, checks.batches[-1])),
    "rows moved": lambda checks: replace(
        checks,
        batches=(
            replace(checks.batches[0], rows=checks.batches[0].rows - 1),
            replace(checks.batches[1], rows=checks.batches[1].rows + 1),
            *checks.batches[2:],
        ),
    ),
    "another place": lambda checks: replace(
        checks, batches=(replace(checks.batches[0], offset=1 << 40), *checks.batches[1:])
    ),
    "beyond the end": lambda checks: replace(
        checks, batches=(*checks.batches[:-1], replace(checks.batches[-1], body_bytes=1 << 40))
    ),
    "fewer columns": lambda checks: replace(
        checks, batches=tuple(replace(batch, digests=batch.digests[:-1]) for batch in checks.batches)
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_record_that_lies_about_its_batches_is_not_believed(tmp_path: Path, lie: str) -> None:
    place = Place(str(tmp_path))
    part = rewritten(place, put(place), LIES[lie])
    with pytest.raises(Damaged):
        list(read_part_table(place, "toys/rows", part, "rows"))


def test_a_record_that_its_manifest_does_not_name_is_not_believed(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    part = put(place)
    rewritten(place, part, LIES["fewer batches"])
    with pytest.raises(Damaged, match="not the one that the manifest names"):
        list(read_part_table(place, "toys/rows", part, "rows"))


@pytest.fixture(scope="module")
def two_parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Manifest]:
    """An artifact of two parts with equal rows."""
    place = Place(str(tmp_path_factory.mktemp("two-parts")))
    return place, put_parts(place, 2)


@settings(deadline=None)
@given(bounds=st.lists(st.integers(0, 2 * sum(SIZES)), min_size=1, max_size=6).map(sorted))
def test_contents_between_bounds(two_parts: tuple[Place, Manifest], bounds: list[int]) -> None:
    """Fails if rows count for another range than theirs, or a batch is decoded that no bound cuts, or one twice."""
    place, manifest = two_parts
    twice = pa.concat_tables([WHOLE, WHOLE])
    edges = set(np.cumsum([0, *SIZES, *SIZES]).tolist())
    wanted = [compute_content(twice.slice(first, stop - first)) for first, stop in pairwise(bounds)]
    decoded: list[tuple[str, int]] = []
    read = tables._MappedFile.read_batch

    def reading(image: Any, number: int) -> pa.RecordBatch:
        decoded.append((image._table.path, number))
        return read(image, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables._MappedFile, "read_batch", reading)
        assert compute_slice_contents(place, manifest, "rows", bounds) == wanted
    assert len(decoded) == len(set(decoded)) <= len(set(bounds) - edges)
