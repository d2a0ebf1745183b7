"""Scales a sample to the whole: how many times as much there is of each source, and by which laws stages grow.

    documents, tokens, most tables     with the records or the text of their source
    copies among documents             Haas and Stokes' estimate of the distinct ones, as databases use it
    words of a vocabulary              as a power of the text (docs/performance.md: MB^0.55 and MB^0.61)
    tokens of a trained vocabulary     a few more for texts that it was not trained on

(P. J. Haas, L. Stokes, "Estimating the Number of Classes in a Finite Population", 1998; there Duj1.)
"""

import math
from dataclasses import dataclass

from corpora.store.manifest import Manifest
from flows.run.estimates.sampling import SourceSample

WORDS_POWER = 0.58
UNSEEN = 0.05  # more tokens for a text whose words were not counted for the vocabulary
FEW_COPIES = 2  # with so few, the estimate counts half


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """Holds what the store has of a source already: documents, and bytes of their texts."""

    documents: int = 0
    text_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Factors from a sample to its source: for what is to be built, and including what the store holds."""

    documents: float = 0.0
    text: float = 0.0
    all_documents: float
    all_text: float


def scale_of(sample: SourceSample, judged: Manifest, older: Older, resampled: bool) -> Scale:
    """Return the scale of a source.

    judged: the documents of its sample; resampled: whether that is of files that the store has documents of
    """
    rows, text = max(1, judged.rows("documents")), max(1, judged.ledger.figures.get("text bytes", 0))
    if resampled:
        return Scale(all_documents=older.documents / rows, all_text=older.text_bytes / text)
    documents = sample.records / max(1, len(sample.sampled))
    characters = sample.sampled_characters
    more = sample.characters / characters if characters else documents
    return Scale(
        documents=documents,
        text=more,
        all_documents=documents + older.documents / rows,
        all_text=more + older.text_bytes / text,
    )


def kept_share(documents: float, sampled: int, removed: int) -> float:
    """Estimate the share of documents that are not a copy of another, from a sample.

    removed: copies in the sample, each taken to be one of two

    >>> kept_share(1_000, 1_000, 100)
    0.9
    >>> round(kept_share(10_000, 1_000, 50), 2), kept_share(10_000, 1_000, 0)
    (0.52, 1.0)
    """
    if not sampled:
        return 1.0
    distinct = sampled - removed
    seen = distinct / sampled
    if documents <= sampled or not removed:
        return seen
    alone = max(0, sampled - 2 * removed)
    estimated = sampled * distinct / (sampled - alone + alone * sampled / documents) / documents
    weight = removed / (removed + FEW_COPIES)
    return weight * min(seen, estimated) + (1 - weight) * seen


def distinct_words(sampled: float, text: float) -> float:
    """Estimate how many different words a text has, from a sample of it. text: times as large

    >>> distinct_words(1_000, 1.0), round(distinct_words(1_000, 100.0))
    (1000.0, 14454)
    """
    return sampled * math.pow(max(1.0, text), WORDS_POWER)
