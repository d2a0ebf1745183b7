"""What a source remarks about its records that drops none: the templates of a wiki that it does not know.

Promise: of those of a part the `MOST_KEPT` that are used most are rows of a table of its own, each with its first
example; sums of parts are at most too low, by templates that are rarer than so many others in some of them. Nothing
about them is in a manifest or a record but that there is such a table.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table

MOST_KEPT = 50
MOST_READ = 1_000  # parts, spread over all of them
TABLE = "templates"
REMARKS = pa.schema([("name", pa.string()), ("number", pa.int64()), ("example", pa.string())])


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
        before = self._remarks.get(name, Remark(name, 0, example))
        self._remarks[name] = before._replace(number=before.number + number)

    def most_frequent(self) -> list[Remark]:
        """Return those made most often, by their number and then by name."""
        return sorted(self._remarks.values(), key=lambda remark: (-remark.number, remark.name))[:MOST_KEPT]

    def rows(self) -> pa.RecordBatch:
        """Return those made most often as rows of a table."""
        return pa.RecordBatch.from_pylist([remark._asdict() for remark in self.most_frequent()], REMARKS)


def read_remarks(place: Place, manifests: Iterable[Manifest]) -> list[Remark]:
    """Return the remarks made most often in some artifacts. Raises Damaged."""
    remarks = Remarks()
    for manifest in manifests:
        for part in _some_parts(manifest):
            for rows in read_part_table(place, manifest.stage_folder, part, TABLE, REMARKS.names):
                for row in rows.to_pylist():
                    remarks.add(**row)
    return remarks.most_frequent()


def _some_parts(manifest: Manifest) -> Iterator[Part]:
    """The parts with remarks, or `MOST_READ` of them."""
    parts = [part for part in manifest.parts if part.count_rows(TABLE)]
    step = max(1, len(parts) / MOST_READ)
    return (parts[int(number * step)] for number in range(min(len(parts), MOST_READ)))
