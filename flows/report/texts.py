"""The texts in a report: samples of dropped rows, duplicates next to each other, and examples with their masks.

Promise: whatever comes from a document, its title, its place or a vocabulary goes through `privacy.Privacy`, here or in
the template as `shown` and `where`, so with "hashed" or "none" no word of any text is on the page.

Two texts are shown next to each other with the places where they differ, each with a few words around it. Words that
are not marked are in both texts, in the same order; omitted words become a gap and are never marked. At most
`MAX_SHOWN_WORDS` words of either text are shown.
Cost: equal beginnings and ends are skipped word by word; of the rest at most `MAX_COMPARED_WORDS` words a side are
compared. The longest sequences of words that both have are searched first, as a reader would. In a long text no
sequence is searched that begins with a word that is more than a hundredth of the text, which bounds the time for
repetitive texts.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.duplicates.candidates import read_documents_at
from corpora.kernels.arrays import Bools, Float32s, Int64s
from corpora.schema import DROPPED, Document, DroppedDocument, iter_dropped
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table, read_table
from flows.report.masked_example import (
    ShownToken,
    describe_example,
    find_label_kind,
    get_example_masks,
    list_shown_tokens,
    sample_examples,
)
from flows.report.run import RunView, View
from flows.run.settled_generations import read_judged_documents
from shards.reading.files.shard_set import ShardSet
from shards.schema import Example
from tokenizers_train.vocabularies.vocabulary import Vocabulary

MAX_READ_CHARACTERS = 200_000
MAX_COMPARED_WORDS = 1_000
CONTEXT_WORDS = 8  # on either side of a difference
MAX_DIFFERENCE_WORDS = 40  # of one difference
MAX_SHOWN_WORDS = 110

# A letter of a script that is written without spaces is a word; a longer run of letters than forty is several.
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f"
_WORD = re.compile(rf"(?:[{_SPACELESS}]|[^\s{_SPACELESS}]{{1,40}})\s*")  # with the white space after it


_Run = tuple[bool, int, int, int, int]  # whether words are alike; the first and the end in one text, and in the other


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of one of two compared texts.

    Attributes:
        kind: "both" if the other text has the words too, "own" if only this text has them, or "gap" for omitted words.
        text: The words; "" for a gap.
    """

    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDifferences:
    """The result of a word-by-word comparison of two texts.

    Attributes:
        left: The pieces (words and gaps) of the first text to show, in order.
        right: The pieces of the second text to show, in order.
        num_own_words: The number of words that only the first text has, and the number that only the second text has.
        is_partial: True if only the beginnings of the texts were compared, because the texts are long.
    """

    left: tuple[Piece, ...]
    right: tuple[Piece, ...]
    num_own_words: tuple[int, int]
    is_partial: bool

    @property
    def is_same(self) -> bool:
        """True if both texts have the same words in the same order."""
        return self.num_own_words == (0, 0) and not self.is_partial


def compare_texts(left: str, right: str) -> TextDifferences:
    """Compare two texts word by word, and choose the pieces of both to show next to each other.

    Words are separated by white space. In scripts that are written without spaces, each character is a word.

    >>> compare_texts("a small grey stone", "a large grey stone").left[1]
    Piece(kind='own', text='small')
    """
    ours, theirs = (_WORD.findall(text[:MAX_READ_CHARACTERS]) for text in (left, right))
    runs, cut = _align_words([word.rstrip() for word in ours], [word.rstrip() for word in theirs])
    partial = cut or max(len(left), len(right)) > MAX_READ_CHARACTERS
    own = [run for run in runs if not run[0]]
    return TextDifferences(
        left=tuple(_iter_pieces(ours, [(alike, first, end) for alike, first, end, *_ in runs], partial)),
        right=tuple(_iter_pieces(theirs, [(alike, first, end) for alike, _, _, first, end in runs], partial)),
        num_own_words=(sum(end - first for _, first, end, *_ in own), sum(end - first for *_, first, end in own)),
        is_partial=partial,
    )


def _align_words(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[_Run], bool]:
    """Divide two lists of words, in order, into sequences of equal words and sequences of different words.

    Returns:
        The sequences, and True if the lists were so long that only their beginnings were compared. A sequence is a
        tuple: True if the words are equal, the first and end index in `ours`, and the first and end index in `theirs`.
    """
    head = _count_alike(ours, theirs)
    tail = _count_alike(ours[head:][::-1], theirs[head:][::-1])
    left, right = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    cut = max(len(left), len(right)) > MAX_COMPARED_WORDS
    compared = SequenceMatcher(None, left[:MAX_COMPARED_WORDS], right[:MAX_COMPARED_WORDS]).get_opcodes()
    runs = [(True, 0, head, 0, head)]
    runs += [(tag == "equal", head + a, head + b, head + c, head + d) for tag, a, b, c, d in compared]
    runs += [] if cut else [(True, len(ours) - tail, len(ours), len(theirs) - tail, len(theirs))]
    return [run for run in runs if run[1] < run[2] or run[3] < run[4]], cut


def _count_alike(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Count the words at the beginning of `ours` that are equal to those at the beginning of `theirs`."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))


def _iter_pieces(words: Sequence[str], runs: Sequence[tuple[bool, int, int]], partial: bool) -> Iterator[Piece]:
    """Yield the pieces of one text to show: differences with their context, and gaps.

    Args:
        words: The words of the text.
        runs: Tuples (True if the words are equal in both texts, index of the first word, end index).
        partial: True if only the beginnings of the texts were compared, because the texts are long.
    """
    room, pieces = MAX_SHOWN_WORDS, [Piece("")]
    for kind, first, end in _iter_spans(runs):
        shown = first if kind == "gap" else min(end, first + room)
        room -= shown - first
        if first < shown:
            pieces.append(Piece(kind, " ".join("".join(words[first:shown]).split())))
        if shown < end:
            pieces.append(Piece("gap"))
    if partial:
        pieces.append(Piece("gap"))
    return (piece for before, piece in pairwise(pieces) if (before.kind, piece.kind) != ("gap", "gap"))


def _iter_spans(runs: Sequence[tuple[bool, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, start, end) spans of word indices, which cover a text: differences, their context, and gaps.

    The kind is "own" for a difference, "both" for its context, and "gap" for words that are not shown.

    Args:
        runs: Tuples (True if the words are equal in both texts, index of the first word, end index).
    """
    last = len(runs) - 1
    for number, (alike, first, end) in enumerate(runs):
        if not alike:
            shown = min(end, first + MAX_DIFFERENCE_WORDS)
            yield "own", first, shown
            if shown < end:
                yield "gap", shown, end
            continue
        before = CONTEXT_WORDS if number else MAX_SHOWN_WORDS // 2 * (last == 0)
        after = CONTEXT_WORDS if number < last else 0
        if end - first <= before + after + 1:
            yield "both", first, end
            continue
        yield "both", first, first + before
        yield "gap", first + before, end - after
        yield "both", end - after, end


SAMPLES_PER_REASON = 3
MAX_PAIRS, MAX_EXACT_PAIRS = 200, 8  # duplicates next to their survivors, at most, and exact ones of these
EXAMPLES_PER_SET = 2  # of a shard set
HIDDEN_TOKEN = "▪"  # in place of a token whose text may not be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason why rows were dropped or removed, with samples.

    Attributes:
        name: The reason.
        count: Number of rows dropped or removed for this reason.
        rows: Some of these rows.
    """

    name: str
    count: int
    rows: tuple[DroppedDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatePair:
    """A removed document and the document that was kept instead.

    Attributes:
        reason: "exact duplicate" or "near duplicate".
        similarity: Jaccard similarity of their shingles (runs of words), from 0 to 1.
        missing: Share of the removed document's shingles that the kept document lacks, from 0 to 1.
        removed: The removed document.
        survivor: The kept document.
    """

    reason: str
    similarity: float
    missing: float
    removed: Document
    survivor: Document


def build_reason_groups(run: RunView) -> list[View]:
    """Build the Jinja template context for the reasons why rows were lost, with samples.

    There is one group for each source and generation (the raw files that one run added), and one for the corpus. Empty
    groups are omitted. The keys of a group are "title" and "reasons".

    Args:
        run: The run.

    Raises:
        Damaged: If a table of dropped rows is damaged.
    """
    groups = []
    for manifest in run.parsed:
        generation = run.name_generation(manifest)
        title = f"Dropped from {manifest.name}{f', {generation}' if generation else ''}"
        groups.append({"title": title, "reasons": list_reasons(run.place, manifest, "dropped", SAMPLES_PER_REASON)})
    if corpus := run.find_newest("corpora"):
        removed = list_reasons(run.place, corpus, "removed", SAMPLES_PER_REASON)
        groups.append({"title": "Removed from the corpus", "reasons": removed})
    return [group for group in groups if group["reasons"]]


def build_duplicate_view(run: RunView) -> View:
    """Build the Jinja template context for the duplicates that a run removed.

    The keys are "missing" (the result of `summarize_missing`) and "pairs" (contexts of pairs of texts to show side by
    side). Both are empty if there are no duplicates.

    Args:
        run: The run.
    """
    verdicts = run.find_newest("verdicts")
    removals = read_removals(run.place, verdicts) if verdicts is not None else None
    if removals is None:
        return {"missing": [], "pairs": []}
    pairs = select_pairs(run.place, removals, MAX_PAIRS, MAX_EXACT_PAIRS)
    return {"missing": summarize_missing(removals), "pairs": [_build_pair_view(pair) for pair in pairs]}


def _build_pair_view(pair: DuplicatePair) -> View:
    """Build the Jinja template context for a pair of duplicates.

    The keys are "reason", "similarity", "missing" and "differences", all as text, and "sides" (the removed and the kept
    document, as dicts with "role", "document" and "pieces").
    """
    compared = compare_texts(pair.removed.text, pair.survivor.text)
    return {
        "reason": pair.reason,
        "similarity": f"{pair.similarity:.3f}",
        "missing": f"{100 * pair.missing:.1f}%",
        "differences": _describe_differences(compared),
        "sides": [
            {"role": "removed", "document": pair.removed, "pieces": compared.left},
            {"role": "stays", "document": pair.survivor, "pieces": compared.right},
        ],
    }


def _describe_differences(compared: TextDifferences) -> str:
    """Describe in words how many words differ between two texts."""
    if compared.is_same:
        return "word for word the same"
    removed, stays = compared.num_own_words
    difference = f"{removed:,} words only in the one that was removed, {stays:,} only in the one that stays"
    return f"{difference}, in as much as was compared" if compared.is_partial else difference


def build_example_views(run: RunView) -> list[View]:
    """Build the Jinja template context for each shard set, with some examples and their tokens, segments and masks.

    The keys are "name", "masking", "mask" (the mask token), "has_pairs", "is_packed" and "examples".

    Args:
        run: The run.
    """
    views = []
    for name, shards in run.find_by_name("shards").items():
        vocabulary = run.find_vocabulary(shards)
        if vocabulary is None:
            continue
        shard_set = ShardSet(run.place, shards)
        chosen = sample_examples(shard_set, EXAMPLES_PER_SET)
        if chosen:
            views.append(
                {
                    "name": name,
                    "masking": shards.settings["masking"],
                    "mask": vocabulary.special_tokens["mask"],
                    "has_pairs": any(example.boundary < len(example.ids) for _, example in chosen),
                    "is_packed": any(len(example.documents) > 1 for _, example in chosen),
                    "examples": [_build_example_view(run, shard_set, vocabulary, *numbered) for numbered in chosen],
                }
            )
    return views


def _build_example_view(
    run: RunView, shard_set: ShardSet, vocabulary: Vocabulary, number: int, example: Example
) -> View:
    """Build the Jinja template context for one example.

    The keys are "number", "label", "length", "masked" (number of masked tokens), "documents" (ids), "digest" ("" unless
    texts are hashed) and "tokens".

    Args:
        run: The run. Its privacy setting determines whether texts are shown.
        shard_set: The shard set that contains the example.
        vocabulary: The vocabulary of the shard set.
        number: Zero-based index of the example in the shard set.
        example: The example.
    """
    tokens = list_shown_tokens(example, vocabulary, get_example_masks(shard_set, example))
    text = " ".join(token.text for token in tokens)
    readable, specials = run.privacy.samples == "text", frozenset(vocabulary.special_tokens.values())
    return {
        "number": number,
        "label": describe_example(example, find_label_kind(shard_set.manifest)),
        "length": len(tokens),
        "masked": sum(token.kind not in ("plain", "special") for token in tokens),
        "documents": [document.hex() for document in example.documents],
        "digest": run.privacy.show(text) if run.privacy.samples == "hashed" else "",
        "tokens": [_build_token_view(token, readable, specials) for token in tokens],
    }


def _build_token_view(token: ShownToken, readable: bool, specials: Collection[str]) -> View:
    """Build the Jinja template context for one token of an example.

    The keys are "text", "seen" (the token that the model receives), "segment" ("a" or "b") and "kind", as in
    `ShownToken`.

    Args:
        token: The token.
        readable: True if texts may be shown. If False, all tokens except special tokens are hidden.
        specials: The special tokens.
    """
    text, seen = (piece if readable or piece in specials else HIDDEN_TOKEN for piece in (token.text, token.seen))
    return {"text": text, "seen": seen, "segment": "ab"[token.segment], "kind": token.kind}


def list_reasons(place: Place, manifest: Manifest, table: str, number: int) -> list[Reason]:
    """List the reasons why rows of a stage result were dropped or removed, most frequent first, with samples.

    Args:
        place: The store.
        manifest: Manifest (description) of the stage result.
        table: "dropped" or "removed".
        number: Maximum number of sample rows per reason.

    Raises:
        Damaged: If the table is damaged.
    """
    prefix = f"{table}: "
    counts = {
        name.removeprefix(prefix): count
        for account in manifest.ledger.accounts
        for name, count in account.outcomes.items()
        if name.startswith(prefix) and count
    }
    reasons = [
        Reason(name=name, count=count, rows=tuple(_read_rows(place, manifest, table, name, number)))
        for name, count in counts.items()
    ]
    return sorted(reasons, key=lambda reason: (-reason.count, reason.name))


def _read_rows(place: Place, manifest: Manifest, table: str, name: str, number: int) -> list[DroppedDocument]:
    """Read the first `number` rows of a stage result that were lost for a reason.

    Only parts (file sets of the stage result) that contain such rows are opened.

    Args:
        place: The store.
        manifest: Manifest (description) of the stage result.
        table: "dropped" or "removed".
        name: The reason, such as "parse: empty".
        number: Maximum number of rows.
    """
    rows_of_reason: list[DroppedDocument] = []
    for part in manifest.parts:
        if any(account.outcomes.get(f"{table}: {name}") for account in part.ledger.accounts):
            rows = iter_dropped(read_part_table(place, manifest.stage_folder, part, table, DROPPED.names))
            matching = (row for row in rows if name in (f"{row.step}: {row.reason}", row.reason))
            rows_of_reason += [row for row, _ in zip(matching, range(number - len(rows_of_reason)), strict=False)]
        if len(rows_of_reason) == number:
            break
    return rows_of_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """The duplicates that were removed from a corpus. All arrays have one entry per removed document.

    Attributes:
        documents: Manifests (stored descriptions) of the parsed documents that were searched for duplicates, in row
            order.
        source_names: Names of the sources.
        rows: int64, row index of each removed document over all of `documents`.
        survivors: int64, row index of the document that was kept instead.
        sources: int64, index in `source_names` of the removed document's source.
        survivor_sources: int64, index in `source_names` of the kept document's source.
        similarity: float32, similarity of the two documents, from 0 to 1.
        missing: float32, share of the removed document's shingles that the kept document lacks, from 0 to 1.
        is_exact: bool, True if the texts are equal.
    """

    documents: Sequence[Manifest]
    source_names: Sequence[str]
    rows: Int64s
    survivors: Int64s
    sources: Int64s
    survivor_sources: Int64s
    similarity: Float32s
    missing: Float32s
    is_exact: Bools


def read_removals(place: Place, verdicts: Manifest) -> Removals | None:
    """Read the removed duplicates of a corpus.

    Args:
        place: The store.
        verdicts: Manifest (stored description) of the deduplication decisions: which documents are kept.

    Returns:
        The removed duplicates; None if the store no longer has all documents that were searched for duplicates.
    """
    documents = read_judged_documents(place, verdicts)
    if len(documents) < sum(parent.role == "documents" for parent in verdicts.parents):
        return None
    columns = ["id", "reason", "survivor", "similarity", "missing"]
    table = pa.Table.from_batches(read_table(place, verdicts, "verdicts", columns))
    rows, survivors = _find_removals(table)
    source_names = list(dict.fromkeys(manifest.name for manifest in documents))
    numbers = np.array([source_names.index(manifest.name) for manifest in documents], np.int64)
    sources = np.repeat(numbers, [manifest.count_rows("documents") for manifest in documents])
    return Removals(
        documents=documents,
        source_names=source_names,
        rows=rows,
        survivors=survivors,
        sources=sources[rows],
        survivor_sources=sources[survivors],
        similarity=table.column("similarity").to_numpy()[rows],
        missing=table.column("missing").to_numpy()[rows],
        is_exact=pc.equal(pc.fill_null(table.column("reason"), ""), "exact duplicate").to_numpy()[rows],
    )


def summarize_missing(removals: Removals) -> list[View]:
    """Summarize, by source, how much of the text of removed near-duplicates the kept documents lack.

    Text is compared by shingles (runs of words).

    Returns:
        The template context of each source that has near-duplicates: its name ("source"), the number of near-duplicates
        ("removed"), the number of those that have all their shingles in the kept document ("whole"), and the "median"
        and "p99" (99th percentile) of the share of shingles that the kept document lacks, as text.
    """
    views = []
    for number, name in enumerate(removals.source_names):
        missing = removals.missing[(removals.sources == number) & ~removals.is_exact]
        if len(missing):
            median, p99 = (f"{100 * share:.1f}%" for share in np.quantile(missing, (0.5, 0.99), method="inverted_cdf"))
            num_complete = int(np.count_nonzero(missing == 0))
            views.append({"source": name, "removed": len(missing), "whole": num_complete, "median": median, "p99": p99})
    return views


def select_pairs(place: Place, removals: Removals, number: int, exact: int) -> list[DuplicatePair]:
    """Select duplicates to show, and read them together with the documents that were kept instead.

    Pairs from different sources come before pairs from one source, and less similar pairs before more similar ones,
    because they reveal a threshold that is too low. If there are more than `number` near-duplicates, the first half of
    the selection is the top of this list, and the other half is evenly spaced in the rest.

    Args:
        place: The store.
        removals: The removed duplicates.
        number: Maximum number of pairs.
        exact: Maximum number of exact duplicates. They are added at the end if there is room.

    Raises:
        Damaged: If a file of the documents is damaged.
    """
    order = np.lexsort((removals.rows, removals.similarity, removals.sources == removals.survivor_sources))
    near = order[~removals.is_exact[order]]
    if len(near) > number:
        first, rest = near[: number // 2], near[number // 2 :]
        near = np.r_[first, rest[np.linspace(0, len(rest) - 1, number - len(first)).astype(np.int64)]]
    chosen = np.r_[near, order[removals.is_exact[order]][: min(exact, number - len(near))]]
    both = {int(row) for place in chosen for row in (removals.rows[place], removals.survivors[place])}
    documents_by_row = read_documents_at(place, removals.documents, both)
    return [
        DuplicatePair(
            reason="exact duplicate" if removals.is_exact[place] else "near duplicate",
            similarity=float(removals.similarity[place]),
            missing=float(removals.missing[place]),
            removed=documents_by_row[int(removals.rows[place])],
            survivor=documents_by_row[int(removals.survivors[place])],
        )
        for place in chosen
    ]


def _find_removals(table: pa.Table) -> tuple[Int64s, Int64s]:
    """Find the removed duplicates in a table of deduplication decisions.

    Args:
        table: Table with the columns "id", "reason" (null for a kept document) and "survivor" (id of the document that
            was kept instead; null if there is none).

    Returns:
        Two int64 arrays [n]: the row indices of the removed duplicates, and those of the documents that were kept
            instead.
    """
    removed = np.flatnonzero(table.column("survivor").is_valid().to_numpy())
    kept = np.flatnonzero(table.column("reason").is_null().to_numpy())
    wanted = table.column("survivor").take(pa.array(removed)).combine_chunks()
    homes = pc.index_in(wanted, value_set=table.column("id").take(pa.array(kept)).combine_chunks())
    assert not homes.null_count, "every survivor is kept"
    return removed, kept[homes.to_numpy()]
