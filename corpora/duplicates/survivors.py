"""Survivors: which documents stay, judged in one total order.

The rule. Documents are in an order, and are judged one after another. A document is compared

1. with the kept document that has an equal shingle set, if there is one; else
2. in each of its buckets (the documents that have a band key in common) with the first
   `max_bucket_comparisons` kept documents there.

It is removed if and only if one of these reaches the threshold, and its survivor is the most similar of them, the
earliest in the order if several are. Otherwise it is kept. Documents without shingles have an equal set if their texts
are equal, byte for byte: of these the first is kept (`signatures.compute_text_keys`). If the rule is "contained", only
documents that have all shingles of the judged one count, so that a removed document is entirely contained in a kept
one. Documents that are given come first in the order, and are not judged.

What a removal loses is reported: `missing` is the share of a removed document's shingles that its survivor lacks.

Promise: a verdict depends only on documents earlier in the order, and among them only on the kept ones; every survivor
is kept; no similarity is estimated. If no bucket holds more kept documents than the limit, step 1 decides nothing that
step 2 would not, for equal sets have equal keys. Comparisons that the limit prevents are counted.

`judge_duplicates_plain` is the rule as it reads; `judge_duplicates` gives the same verdicts and counts by way of
`sweep`, which states the cost.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corpora.duplicates.signatures import EMPTY_SET, BandSettings, SignatureSettings, name_key_columns
from corpora.duplicates.sweep import (
    COMPARED,
    CUT,
    KEPT,
    MAX_BLOCK_DOCUMENTS,
    NO_PLACE,
    PAIRS_PER_CALL,
    Buckets,
    Similarity,
    Sweep,
    build_buckets,
    find_equal_sets,
    gather_pairs,
    judge_block,
    start_sweep,
)
from corpora.duplicates.verify import is_at_least, parse_threshold
from corpora.kernels.arrays import Bools, Float32s, Int32s, Int64s, UInt64s
from corpora.store.scratch import ScratchTable
from corpora.store.settings import check_choice, check_range, later_field

RULES = SIMILAR, CONTAINED = "similar", "contained"
PREFERENCES = QUALITY, LONGEST = "quality", "longest"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateSettings:
    """The recipe's table [duplicates].

    threshold:              minimum similarity of near-duplicates, with at most six decimals
    permutations:           number of values in a signature
    shingle_words:          number of consecutive words in a shingle
    bands:                  number of bands that a signature is divided into; documents that share one are compared
    rows:                   number of values in a band
    max_bucket_comparisons: maximum number of kept documents that a document is compared with for each of its bands
    rule:                   "similar" removes every document that reaches the threshold; "contained" removes it only if
                            the survivor also has all of its shingles
    prefer:                 which duplicate is kept if generation and source priority are equal: the one with the best
                            "quality", or the "longest" one, by the number of distinct shingles
    enabled:                false keeps every document
    """

    threshold: float = 0.8
    permutations: int = 128
    shingle_words: int = 5
    bands: int = 18
    rows: int = 7
    max_bucket_comparisons: int = 1000
    rule: str = later_field(neutral=SIMILAR)
    prefer: str = later_field(neutral=QUALITY)
    enabled: bool = True

    def __post_init__(self) -> None:
        check_choice("duplicates.rule", self.rule, RULES)
        check_choice("duplicates.prefer", self.prefer, PREFERENCES)
        parse_threshold(self.threshold)
        check_range("max_bucket_comparisons", self.max_bucket_comparisons, 1, 10**9)
        self.band.check_fits(self.signature.permutations)

    @property
    def signature(self) -> SignatureSettings:
        """The settings of the signatures: the number of values and the number of words in a shingle."""
        return SignatureSettings(permutations=self.permutations, shingle_words=self.shingle_words)

    @property
    def band(self) -> BandSettings:
        """The settings of the bands: their number, and the number of values in each."""
        return BandSettings(bands=self.bands, rows=self.rows)


class Verdicts(NamedTuple):
    """The decisions about n documents, indexed by position in the total order.

    Attributes:
        survivor: int64 [n], position of the kept document that the document duplicates; KEPT if the document is kept.
        similarity: float32 [n], Jaccard similarity to the survivor; 0 if the document is kept.
        missing: float32 [n], share of the document's shingles that the survivor lacks; 0 if the document is kept.
        exact: bool [n], True if the document has the same set of shingles as the survivor.
        num_compared: Number of pairs of documents with a common band key that were compared.
        num_cut: Number of kept documents that were not compared because of `max_bucket_comparisons`, summed over
            documents and buckets.
    """

    survivor: Int64s
    similarity: Float32s
    missing: Float32s
    exact: Bools
    num_compared: int
    num_cut: int


def judge_duplicates_plain(
    set_hash: UInt64s, band_keys: UInt64s, similarity: Similarity, settings: DuplicateSettings, num_given: int = 0
) -> Verdicts:
    """Decide which documents are kept like `judge_duplicates`, comparing one pair at a time.

    This is its reference implementation, for tests.

    Args:
        set_hash: uint64 [n], hashes of the shingle sets, in the total order.
        band_keys: uint64 [n, bands], the band keys, in the total order.
        similarity: Compares two documents, identified by their positions in the total order.
        settings: Settings of the duplicate search.
        num_given: Number of documents at the beginning that are kept without being judged.
    """
    threshold, limit = parse_threshold(settings.threshold), settings.max_bucket_comparisons
    kept_sets, buckets = defaultdict[int, list[int]](list), defaultdict[tuple[int, int], list[int]](list)
    verdicts = _keep_all(len(set_hash))
    num_compared = num_cut = 0
    if not settings.enabled:
        return verdicts

    def compare(document: int, other: int) -> tuple[int, int, int]:
        pair = similarity.compute_overlaps(np.array([other]), np.array([document]))
        return int(pair.intersection[0]), int(pair.union[0]), int(pair.right_size[0])

    for document in np.flatnonzero(set_hash != EMPTY_SET).tolist():
        shared = [buckets[band, key] for band, key in enumerate(band_keys[document].tolist())]
        best, best_ratio, missing = KEPT, (0, 1), 0.0
        for other in kept_sets[int(set_hash[document])]:
            common, union, _ = compare(document, other)
            if common == union:
                best, best_ratio = other, (1, 1)
        if document < num_given:
            if best != KEPT:
                continue  # the one with an equal set is there to compare with
        elif best == KEPT:
            for other in sorted({other for bucket in shared for other in bucket[:limit]}):
                common, union, own = compare(document, other)
                fits = is_at_least(common, union, threshold) and (common == own or settings.rule != CONTAINED)
                if fits and common * best_ratio[1] > best_ratio[0] * union:
                    best, best_ratio, missing = other, (common, union), (own - common) / own
                num_compared += 1
            num_cut += sum(max(len(bucket) - limit, 0) for bucket in shared)
        verdicts.survivor[document] = best
        if best == KEPT:
            kept_sets[int(set_hash[document])].append(document)
            for bucket in shared:
                bucket.append(document)
        else:
            verdicts.similarity[document], verdicts.missing[document] = best_ratio[0] / best_ratio[1], missing
            verdicts.exact[document] = best_ratio[0] == best_ratio[1]
    return verdicts._replace(num_compared=num_compared, num_cut=num_cut)


def judge_duplicates(
    set_hash: UInt64s, band_keys: UInt64s, similarity: Similarity, settings: DuplicateSettings, num_given: int = 0
) -> Verdicts:
    """Decide which of n documents are kept, according to the rule in the module docstring.

    Args:
        set_hash: uint64 [n], hashes of the shingle sets, in the total order. Documents with EMPTY_SET are kept.
        band_keys: uint64 [n, bands], the band keys, in the total order.
        similarity: Compares pairs of documents, identified by their positions in the total order. It is called with
            many pairs at once, some of which may turn out to be unnecessary.
        settings: Settings of the duplicate search.
        num_given: Number of documents at the beginning that are kept without being judged, such as those of another
            corpus.

    Returns:
        The decisions, in the total order.

    Raises:
        InputError: If the threshold is not valid.
    """
    assert len(set_hash) == len(band_keys), "one set hash and one row of keys for each document"
    if not settings.enabled:
        return _keep_all(len(set_hash))
    places = np.where(set_hash == EMPTY_SET, np.int32(NO_PLACE), np.arange(len(set_hash), dtype=np.int32))
    buckets = build_buckets(places, band_keys.T)
    return judge_buckets(buckets, set_hash[buckets.documents], similarity, settings, len(set_hash), num_given)


def judge_table(
    table: ScratchTable, order: Int32s, similarity: Similarity, settings: DuplicateSettings, num_given: int = 0
) -> Verdicts:
    """Decide which rows of a scratch table are kept, like `judge_duplicates`.

    Args:
        table: Table with the column "set_hash" and the columns from `name_key_columns`.
        order: int32, the row index at each position of the total order. All other rows are ignored.
        similarity: Compares pairs of documents, identified by their positions in the total order.
        settings: Settings of the duplicate search.
        num_given: Number of documents at the beginning of the order that are kept without being judged.

    Returns:
        The decisions, indexed by position in the total order.

    Raises:
        InputError: If the threshold is not valid.
    """
    places = np.full(table.rows, NO_PLACE, np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    buckets = build_buckets(places, map(table.read_column, name_key_columns(settings.bands)))
    set_hash = table.read_column("set_hash")[order[buckets.documents]]
    return judge_buckets(buckets, set_hash, similarity, settings, len(order), num_given)


def judge_buckets(
    buckets: Buckets,
    set_hash: UInt64s,
    similarity: Similarity,
    settings: DuplicateSettings,
    num_documents: int,
    num_given: int = 0,
) -> Verdicts:
    """Decide which documents are kept, like `judge_duplicates`, but with buckets that have already been built.

    Args:
        buckets: The buckets from `build_buckets`. They are overwritten.
        set_hash: uint64, the hashes of the shingle sets of `buckets.documents`.
        similarity: Compares pairs of documents, identified by their positions in the total order.
        settings: Settings of the duplicate search.
        num_documents: Number of all documents in the total order, including those without a bucket.
        num_given: Number of documents at the beginning of the order that are kept without being judged.

    Returns:
        The decisions, indexed by position in the total order.

    Raises:
        InputError: If the threshold is not valid.
    """
    documents = buckets.documents
    similarity.load(documents)
    sweep = start_sweep(buckets, find_equal_sets(set_hash, documents, similarity))
    limit, ratio = settings.max_bucket_comparisons, parse_threshold(settings.threshold)
    given, contained = int(np.searchsorted(documents, num_given)), settings.rule == CONTAINED
    others, ends = np.empty(max(PAIRS_PER_CALL, len(documents)), np.int64), np.zeros(MAX_BLOCK_DOCUMENTS + 1, np.int64)
    start = 0
    while start < len(documents):
        end = gather_pairs(buckets, sweep, start, given, limit, others, ends)
        later = np.repeat(documents[start:end], np.diff(ends[: end - start + 1]))
        overlaps = similarity.compute_overlaps(documents[others[: len(later)]], later)
        judge_block(
            buckets, sweep, start, end, given, limit, others, ends, overlaps, *ratio.as_integer_ratio(), contained
        )
        start = end
    return _build_verdicts(num_documents, documents, sweep)


def _build_verdicts(num_documents: int, places: Int64s, sweep: Sweep) -> Verdicts:
    """Convert the final state of a sweep to verdicts, indexed by position in the total order.

    Args:
        num_documents: Number of all documents in the total order.
        places: int64, the position of each document of the sweep.
        sweep: The final state.
    """
    removed = np.flatnonzero(sweep.survivor != KEPT)
    common, union, own = sweep.common[removed], sweep.union[removed], sweep.num_shingles[removed]
    verdicts = _keep_all(num_documents)
    verdicts.survivor[places[removed]] = places[sweep.survivor[removed]]
    verdicts.similarity[places[removed]] = common / union
    verdicts.missing[places[removed]] = np.where(common == union, 0, own - common) / own
    verdicts.exact[places[removed]] = common == union
    return verdicts._replace(num_compared=int(sweep.counts[COMPARED]), num_cut=int(sweep.counts[CUT]))


def _keep_all(num_documents: int) -> Verdicts:
    return Verdicts(
        np.full(num_documents, KEPT, np.int64),
        np.zeros(num_documents, np.float32),
        np.zeros(num_documents, np.float32),
        np.zeros(num_documents, np.bool_),
        0,
        0,
    )
