"""The texts in a report: dropped rows, duplicates side by side, examples under their masks.

Promise: whatever comes from a document, its title, its place or a vocabulary goes through `privacy.Privacy`, here or
in the template as `shown` and `where`, so with "hashed" or "none" no word of any text is on the page.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Int64s
from corpora.schema import DOCUMENTS, DROPPED, Document, Dropped, documents, dropped_rows
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import open_table, read_table
from flows.report.drawing.differences import TextDifferences, compare
from flows.report.drawing.examples import (
    ShownToken,
    example_in_words,
    example_masks,
    labels_of,
    sample_examples,
    shown_tokens,
)
from flows.report.run import RunView
from flows.run.settled import judged_documents
from shards.reading.files.shard_set import ShardSet
from shards.schema import Example
from tokenizers_train.vocabularies.vocabulary import Vocabulary

SAMPLES_OF_A_REASON = 3
DUPLICATES = 8
EXAMPLES = 2  # of a shard set
HIDDEN = "▪"  # in place of a token whose text may not be shown

View = dict[str, Any]  # what the template reads, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason why rows were dropped, how many, and a few of them."""

    name: str
    count: int
    rows: tuple[Dropped, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatePair:
    """A removed document and the one that stays for it. `similarity` is the Jaccard index of their shingles."""

    reason: str
    similarity: float
    removed: Document
    survivor: Document


def reason_groups(run: RunView) -> list[View]:
    """Return reasons with samples, grouped by artifact: what each source dropped, what the corpus left out."""
    parsed = [
        (_dropped_from(run, manifest), reasons_of(run.place, manifest, "dropped", SAMPLES_OF_A_REASON))
        for manifest in run.parsed
    ]
    corpus = run.newest("corpora")
    removed = reasons_of(run.place, corpus, "removed", SAMPLES_OF_A_REASON) if corpus is not None else []
    return [
        {"title": title, "reasons": reasons}
        for title, reasons in [*parsed, ("Removed from the corpus", removed)]
        if reasons
    ]


def _dropped_from(run: RunView, manifest: Manifest) -> str:
    """Return the title of what a source dropped, with its generation where there are several."""
    generation = run.generation(manifest)
    return f"Dropped from {manifest.name}{f', {generation}' if generation else ''}"


def pair_views(run: RunView) -> list[View]:
    """Return duplicates next to their survivors, with the words that only one of the two has."""
    verdicts = run.newest("verdicts")
    pairs = duplicate_pairs(run.place, verdicts, DUPLICATES) if verdicts is not None else []
    return [_pair_view(pair) for pair in pairs]


def _pair_view(pair: DuplicatePair) -> View:
    compared = compare(pair.removed.text, pair.survivor.text)
    return {
        "reason": pair.reason,
        "similarity": f"{pair.similarity:.3f}",
        "differences": _differences(compared),
        "sides": [
            {"role": "removed", "document": pair.removed, "pieces": compared.left},
            {"role": "stays", "document": pair.survivor, "pieces": compared.right},
        ],
    }


def _differences(compared: TextDifferences) -> str:
    """Return how two texts differ, in numbers."""
    if compared.is_same:
        return "word for word the same"
    removed, stays = compared.own
    difference = f"{removed:,} words only in the one that was removed, {stays:,} only in the one that stays"
    return f"{difference}, in as much as was compared" if compared.partial else difference


def example_views(run: RunView) -> list[View]:
    """Return a few training examples of each shard set, each token with its segment and mask."""
    views = []
    for name, shards in run.of_each("shards").items():
        vocabulary = run.vocabulary_of(shards)
        if vocabulary is None:
            continue
        shard_set = ShardSet(run.place, shards)
        chosen = sample_examples(shard_set, EXAMPLES)
        if chosen:
            views.append(
                {
                    "name": name,
                    "masking": shards.settings["masking"],
                    "mask": vocabulary.special_tokens["mask"],
                    "has_pairs": any(example.boundary < len(example.ids) for _, example in chosen),
                    "is_packed": any(len(example.documents) > 1 for _, example in chosen),
                    "examples": [_example_view(run, shard_set, vocabulary, *numbered) for numbered in chosen],
                }
            )
    return views


def _example_view(run: RunView, shard_set: ShardSet, vocabulary: Vocabulary, number: int, example: Example) -> View:
    tokens = shown_tokens(example, vocabulary, example_masks(shard_set, example))
    text = " ".join(token.text for token in tokens)
    readable, specials = run.privacy.samples == "text", frozenset(vocabulary.special_tokens.values())
    return {
        "number": number,
        "label": example_in_words(example, labels_of(shard_set.manifest)),
        "length": len(tokens),
        "masked": sum(token.kind not in ("plain", "special") for token in tokens),
        "documents": [document.hex() for document in example.documents],
        "digest": run.privacy.show(text) if run.privacy.samples == "hashed" else "",
        "tokens": [_token_view(token, readable, specials) for token in tokens],
    }


def _token_view(token: ShownToken, readable: bool, specials: Collection[str]) -> View:
    """Return a token for the template; where text may not be shown, only special tokens are."""
    text, seen = (piece if readable or piece in specials else HIDDEN for piece in (token.text, token.seen))
    return {"text": text, "seen": seen, "segment": "ab"[token.segment], "kind": token.kind}


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


def duplicate_pairs(place: Place, verdicts: Manifest, number: int) -> list[DuplicatePair]:
    """Return removed duplicates with their survivors: pairs of two sources first, and of these the least alike.

    There a threshold that is too low would show first. Empty where the store no longer has all judged documents.
    """
    judged = judged_documents(place, verdicts)
    if len(judged) < sum(parent.role == "documents" for parent in verdicts.parents):
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
