"""Files checked, and what is kept of a table that was written without checks."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_tables import LIES, put

from corpora.store.digests.arrow_layout import digest_table, find_mismatch
from corpora.store.digests.content import compute_content
from corpora.store.file_check import find_damage, map_in_threads, rebuild_part_record
from corpora.store.ledger import Ledger
from corpora.store.manifest import read_checks
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage

NUMBERS = pa.schema([pa.field("id", pa.binary(4), nullable=False), pa.field("number", pa.int64())])


def build_few(writer: PartWriter, plan: PartPlan) -> Ledger:
    for name, sizes in {"empty": [0], "gap": [0, 2, 0, 1, 0], "nothing": []}.items():
        with writer.create_table(name, NUMBERS) as sink:
            for size in sizes:
                sink.write(pa.record_batch([[b"abcd"] * size, list(range(size))], schema=NUMBERS))
    return Ledger()


@pytest.mark.parametrize("table", ["empty", "gap", "nothing"])
def test_batches_without_rows_are_described_as_they_were_written(place: Place, table: str) -> None:
    """Fails if the length of a batch is read from a field that is not written, as it is zero."""
    fields: dict[str, Any] = {"settings": {}, "parents": (), "libraries": {}, "build": build_few}
    stage = Stage(kind="toys", name="few", build_version=1, parts=(PartPlan(name="part", key=0),), **fields)
    [part] = build_stage(place, stage).parts
    [file] = (file for file in part.files if file.table == table)
    noted = read_checks(place, "toys/few", part)[file.path]
    data = memoryview(Path(place.to_full_path(f"toys/few/{file.path}")).read_bytes())
    assert digest_table(data, compute_content, None) == noted
    assert find_mismatch(data, noted, None) is None


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_a_table_is_found(place: Place, lie: str) -> None:
    """Fails if a record that does not describe its file passes for one that does."""
    part = put(place)
    file = part.files[0]
    path, record = f"toys/rows/{file.path}", "toys/rows/record"
    checks = read_checks(place, "toys/rows", part)[file.path]
    data = memoryview(place.read(path))
    assert find_mismatch(data, checks, "key") is None
    assert find_mismatch(data, LIES[lie](checks), "key") is not None
    found = find_damage(place, "toys", path, file, record, LIES[lie](checks))
    assert found is not None and found.path == record and "what is not so" in found.what


def test_a_part_is_described_as_it_was_written(place: Place) -> None:
    """Fails if a record that is made again differs from the one that was written with its files."""
    part = put(place)
    assert part.record is not None
    again = rebuild_part_record(place, "toys", "toys/rows", part)
    assert set(again.checks) == {file.path for file in part.files if file.table != "files"}


def test_work_side_by_side_keeps_its_order_and_raises() -> None:
    """Fails if results come as they are ready, too many items are taken at once, or an error is lost."""
    taken: list[int] = []

    def items() -> Any:
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_in_threads(lambda number: 1 // (number - 500), items())
    assert [next(results) for _ in range(500)] == [1 // (number - 500) for number in range(500)]
    assert len(taken) < 520
    with pytest.raises(ZeroDivisionError):
        next(results)
