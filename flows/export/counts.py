"""The live documents behind an export, counted by source, split, generation, language and licence.

Cost: a few columns of the corpus; its texts are not read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields

import pyarrow as pa

from corpora.build import read_delete_list, without_deleted
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.tables import read_table

_READ = ("id", "revision", "generation", "source", "held_out", "language", "license")
_BY = ("source", "held_out", "generation", "language", "license")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsOf:
    """What documents are counted under. language, license: "" where none is known"""

    source: str
    split: str
    generation: int
    language: str
    license: str


class DocumentCounts:
    """How many live documents there are of each."""

    def __init__(self, counts: Counter[DocumentsOf]) -> None:
        self.counts = counts

    def by(self, *names: str) -> dict[tuple[str, ...], int]:
        """Sums by some of the names, in order of these."""
        known = {field.name for field in fields(DocumentsOf)}
        assert set(names) <= known, f"{names} are not among {known}"
        sums = Counter[tuple[str, ...]]()
        for of, count in self.counts.items():
            sums[tuple(getattr(of, name) for name in names)] += count
        return dict(sorted(sums.items()))

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total()


def count_documents(place: Place, corpus: Manifest, sources: Collection[str] = ()) -> DocumentCounts:
    """The live documents of a corpus, or of some of its sources. Raises Damaged."""
    deleted = read_delete_list(place, corpus)
    live = (without_deleted(batch, deleted) for batch in read_table(place, corpus, "documents", _READ))
    counts = Counter[DocumentsOf]()
    for of, count in _grouped(live):
        if not sources or of.source in sources:
            counts[of] += count
    return DocumentCounts(counts)


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[DocumentsOf, int]]:
    """What rows are counted under, with how many there are of it in a batch."""
    for batch in batches:
        table = pa.Table.from_batches([batch]).group_by(list(_BY), use_threads=False).aggregate([([], "count_all")])
        for row in table.to_pylist():
            yield (
                DocumentsOf(
                    source=row["source"],
                    split="held-out" if row["held_out"] else "train",
                    generation=row["generation"],
                    language=row["language"] or "",
                    license=row["license"] or "",
                ),
                row["count_all"],
            )
