"""Remarks of a source about its records that drop none: the templates of a wiki that it does not know.

Promise: for each part (a group of slices that one worker reads) the `MAX_REMARKS` most frequent are stored as rows of a
table of their own, each with its first example. Sums over parts may be too low for templates that were not among the
most frequent of some parts. Manifests and records contain nothing about remarks, except that there is such a table.
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
    """A wiki template that is missing from all template tables, and how often it is used.

    Attributes:
        name: The template's name in lower case.
        number: Number of uses.
        example: The first use of the template, and the text that replaced it.
    """

    name: str
    number: int
    example: str


class Remarks:
    """Counts the uses of unknown wiki templates by name, and stores the first use of each as an example."""

    def __init__(self) -> None:
        self._remarks: dict[str, Remark] = {}

    def add(self, name: str, example: str, number: int = 1) -> None:
        """Add `number` uses to the count of a template.

        Args:
            name: Name of the template.
            example: A use of the template. It is stored only if the name is new.
            number: The number of uses to add.
        """
        earlier = self._remarks.get(name, Remark(name, 0, example))
        self._remarks[name] = earlier._replace(number=earlier.number + number)

    def list_most_frequent(self) -> list[Remark]:
        """List the `MAX_REMARKS` most frequent remarks, sorted by descending number and then by name."""
        return sorted(self._remarks.values(), key=lambda remark: (-remark.number, remark.name))[:MAX_REMARKS]

    def to_record_batch(self) -> pa.RecordBatch:
        """Return the `MAX_REMARKS` most frequent remarks as an Arrow record batch with the schema `REMARK_SCHEMA`."""
        return pa.RecordBatch.from_pylist([remark._asdict() for remark in self.list_most_frequent()], REMARK_SCHEMA)


def read_remarks(place: Place, manifests: Iterable[Manifest]) -> list[Remark]:
    """Read the remarks of several artifacts, and add up their counts.

    If an artifact has more than `MAX_PARTS_READ` parts with remarks, only a sample of the parts is read.

    Args:
        place: The store with the artifacts.
        manifests: The artifacts' manifests.

    Returns:
        The `MAX_REMARKS` most frequent remarks, sorted by descending number and then by name.

    Raises:
        Damaged: If a table is damaged.
    """
    remarks = Remarks()
    for manifest in manifests:
        for part in _sample_parts(manifest):
            for rows in read_part_table(place, manifest.stage_folder, part, REMARK_TABLE, REMARK_SCHEMA.names):
                for row in rows.to_pylist():
                    remarks.add(**row)
    return remarks.list_most_frequent()


def _sample_parts(manifest: Manifest) -> Iterator[Part]:
    """Yield the parts of an artifact that have remarks; if there are many, only `MAX_PARTS_READ` evenly spaced ones."""
    parts = [part for part in manifest.parts if part.count_rows(REMARK_TABLE)]
    step = max(1, len(parts) / MAX_PARTS_READ)
    return (parts[int(number * step)] for number in range(min(len(parts), MAX_PARTS_READ)))
