"""Samples of text for a report: dropped rows by reason, duplicates next to their survivors.

Promise: samples are the same for the same store. Whoever shows them sends every text through `Privacy.show`.
Cost: the part ledgers say where a reason occurs, so at most `number` parts are read for a reason; of duplicates
the verdicts are read (about 60 bytes a document) and two parts of documents for each pair shown.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Int64s
from corpora.schema import DOCUMENTS, DROPPED, Document, Dropped, documents, dropped_rows
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import open_table, read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason why rows were dropped, how many, and a few of them."""

    name: str
    count: int
    rows: tuple[Dropped, ...]


def reasons_of(place: Place, manifest: Manifest, table: str, number: int) -> list[Reason]:
    """Return why rows are in `dropped` or `removed`, the most frequent reason first, with `number` rows of each."""
    prefix = f"{table}: "
    counts = {
        name.removeprefix(prefix): count
        for account in manifest.ledger.accounts
        for name, count in account.outcomes.items()
        if name.startswith(prefix) and count
    }
    reasons = [
        Reason(name=name, count=count, rows=tuple(_rows(place, manifest, table, name, number)))
        for name, count in counts.items()
    ]
    return sorted(reasons, key=lambda reason: (-reason.count, reason.name))


def _rows(place: Place, manifest: Manifest, table: str, name: str, number: int) -> list[Dropped]:
    """Return the first rows of one reason; only parts whose ledger counts it are opened."""
    rows_of_reason: list[Dropped] = []
    for part in manifest.parts:
        if any(account.outcomes.get(f"{table}: {name}") for account in part.ledger.accounts):
            rows = dropped_rows(open_table(place, manifest.stage_folder, part, table, DROPPED.names))
            named = (row for row in rows if name in (f"{row.step}: {row.reason}", row.reason))
            rows_of_reason += [row for row, _ in zip(named, range(number - len(rows_of_reason)), strict=False)]
        if len(rows_of_reason) == number:
            break
    return rows_of_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatePair:
    """A removed document and the one that stays for it. `similarity` is the Jaccard index of their shingles."""

    reason: str
    similarity: float
    removed: Document
    survivor: Document


def duplicate_pairs(place: Place, verdicts: Manifest, number: int) -> list[DuplicatePair]:
    """Return removed duplicates with their survivors: pairs of two sources first, and of these the least alike.

    There a threshold that is too low would show first. Empty where the store no longer has all judged documents.
    """
    parents = [parent for parent in verdicts.parents if parent.role == "documents"]
    manifests = [read_manifest(place, f"documents/{parent.name}/{parent.fingerprint}") for parent in parents]
    judged = [manifest for manifest in manifests if manifest is not None]
    if len(judged) < len(parents):
        return []
    columns = ["id", "reason", "survivor", "similarity"]
    table = pa.Table.from_batches(read_table(place, verdicts, "verdicts", columns))
    removed, survivors = _removals(table)
    similarity = table.column("similarity").to_numpy()[removed]
    sources = _sources_of_rows(judged)
    chosen = np.lexsort((removed, similarity, sources[removed] == sources[survivors]))[:number].tolist()
    pairs = [(int(removed[place]), int(survivors[place]), float(similarity[place])) for place in chosen]
    documents_at = _judged_documents(place, judged, {row for pair in pairs for row in pair[:2]})
    return [
        DuplicatePair(
            reason=table.column("reason")[row].as_py(),
            similarity=alike,
            removed=documents_at[row],
            survivor=documents_at[survivor],
        )
        for row, survivor, alike in pairs
    ]


def _removals(table: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the rows of verdicts that were removed for a survivor, and the rows of these survivors."""
    removed = np.flatnonzero(table.column("survivor").is_valid().to_numpy())
    kept = np.flatnonzero(table.column("reason").is_null().to_numpy())
    wanted = table.column("survivor").take(pa.array(removed)).combine_chunks()
    homes = pc.index_in(wanted, value_set=table.column("id").take(pa.array(kept)).combine_chunks())
    assert not homes.null_count, "every survivor is kept"
    return removed, kept[homes.to_numpy()]


def _sources_of_rows(judged: Sequence[Manifest]) -> Int64s:
    """Return the number of each judged document's source: one number a name, over all generations."""
    names = list(dict.fromkeys(manifest.name for manifest in judged))
    numbers = np.array([names.index(manifest.name) for manifest in judged], np.int64)
    return np.repeat(numbers, [manifest.rows("documents") for manifest in judged])


def _judged_documents(place: Place, judged: Sequence[Manifest], rows: Collection[int]) -> dict[int, Document]:
    """Return the documents of rows of verdicts, which are in the order of the judged documents' parts."""
    documents_by_row: dict[int, Document] = {}
    first = 0
    for manifest in judged:
        for part in manifest.parts:
            here = sorted(row for row in rows if first <= row < first + part.rows("documents"))
            for row in here:
                rows_there = range(row - first, row - first + 1)
                batches = open_table(place, manifest.stage_folder, part, "documents", DOCUMENTS.names, rows_there)
                [documents_by_row[row]] = documents(batches)
            first += part.rows("documents")
    return documents_by_row
