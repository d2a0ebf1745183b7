"""What a source remarks about its records that drops none: the templates of a wiki that it does not know.

Promise: of those of a part the `MAX_REMARKS` that are used most are rows of a table of its own, each with its first
example; sums of parts are at most too low, by templates that are rarer than so many others in some of them. Nothing
about them is in a manifest or a record but that there is such a table.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table

MAX_REMARKS = 50
MAX_PARTS_READ = 1_000  # parts, spread over all of them
REMARK_TABLE = "templates"
REMARK_SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64()), ("example", pa.string())])


class Remark(NamedTuple):
    """What was remarked, how often, and the first example."""

    name: str
    number: int
    example: str


class Remarks:
    """Counts remarks."""

    def __init__(self) -> None:
        self._remarks: dict[str, Remark] = {}

    def add(self, name: str, example: str, number: int = 1) -> None:
        """Count a remark."""
        earlier = self._remarks.get(name, Remark(name, 0, example))
        self._remarks[name] = earlier._replace(number=earlier.number + number)

    def list_most_frequent(self) -> list[Remark]:
        """Return those made most often, by their number and then by name."""
        return sorted(self._remarks.values(), key=lambda remark: (-remark.number, remark.name))[:MAX_REMARKS]

    def to_record_batch(self) -> pa.RecordBatch:
        """Return those made most often as rows of a table."""
        return pa.RecordBatch.from_pylist([remark._asdict() for remark in self.list_most_frequent()], REMARK_SCHEMA)


def read_remarks(place: Place, manifests: Iterable[Manifest]) -> list[Remark]:
    """Return the remarks made most often in some artifacts. Raises Damaged."""
    remarks = Remarks()
    for manifest in manifests:
        for part in _sample_parts(manifest):
            for rows in read_part_table(place, manifest.stage_folder, part, REMARK_TABLE, REMARK_SCHEMA.names):
                for row in rows.to_pylist():
                    remarks.add(**row)
    return remarks.list_most_frequent()


def _sample_parts(manifest: Manifest) -> Iterator[Part]:
    """The parts with remarks, or `MAX_PARTS_READ` of them."""
    parts = [part for part in manifest.parts if part.count_rows(REMARK_TABLE)]
    step = max(1, len(parts) / MAX_PARTS_READ)
    return (parts[int(number * step)] for number in range(min(len(parts), MAX_PARTS_READ)))
