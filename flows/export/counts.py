"""The live documents behind an export, counted by source, split, generation, language and licence.

Cost: a few columns of the corpus; its texts are not read.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from corpora.build import read_delete_list, without_deleted
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_table

NAMES = ("source", "split", "generation", "language", "license")
_BY = ("source", "held_out", "generation", "language", "license")


@dataclass(frozen=True)
class DocumentCounts:
    """Numbers of live documents, by the values of all NAMES; language and license are "" where unknown."""

    counts: Counter[tuple[str, ...]]

    def by(self, *names: str) -> dict[tuple[str, ...], int]:
        """Return sums by some of the names, in their order."""
        places = [NAMES.index(name) for name in names]
        sums = Counter[tuple[str, ...]]()
        for of, count in self.counts.items():
            sums[tuple(of[place] for place in places)] += count
        return dict(sorted(sums.items()))

    @property
    def total(self) -> int:
        """Return the number of all documents."""
        return self.counts.total()


def count_documents(place: Place, corpus: Manifest, sources: Collection[str] = ()) -> DocumentCounts:
    """Count the live documents of a corpus, or of some of its sources. Raises Damaged."""
    deleted = read_delete_list(place, corpus)
    counts = Counter[tuple[str, ...]]()
    for batch in read_table(place, corpus, "documents", ("id", "revision", *_BY)):
        table = pa.Table.from_batches([without_deleted(batch, deleted)])
        for row in table.group_by(list(_BY), use_threads=False).aggregate([([], "count_all")]).to_pylist():
            split = "held-out" if row["held_out"] else "train"
            of = (row["source"], split, row["generation"], row["language"] or "", row["license"] or "")
            if not sources or row["source"] in sources:
                counts[of] += row["count_all"]
    return DocumentCounts(counts)
