"""From a rehearsal to the whole: what each of its parts stands for, and by which law each stage grows.

    documents, tokens, most tables     with the records or the text of the stratum that a part is made of
    copies among documents             Haas and Stokes' estimate of the distinct ones, as databases use it
    words of a vocabulary              as a power of the text (docs/performance.md: MB^0.55 and MB^0.61)
    tokens of a trained vocabulary     half way between texts that it was trained on and others

(P. J. Haas, L. Stokes, "Estimating the Number of Classes in a Finite Population", 1998; there Duj1.)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from corpora.store.manifest import Part
from flows.run.estimates.rehearsal import Rehearsal

WORDS_POWER = 0.58
FEW_COPIES = 2  # of so few the estimate counts half


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How often a part of a rehearsal is in the whole.

    documents, text: times as many, of what is to be built
    known:           what older artifacts hold of the source, for each document or byte of text that is new
    """

    documents: float
    text: float
    known: float = 0.0

    @property
    def all_documents(self) -> float:
        """With those of older artifacts."""
        return self.documents * (1 + self.known)

    @property
    def all_text(self) -> float:
        """With that of older artifacts."""
        return self.text * (1 + self.known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """What the store holds of a source already: documents, and bytes of their texts."""

    documents: int = 0
    text_bytes: int = 0


def scales_of(rehearsal: Rehearsal, older: Mapping[str, Older], resampled: frozenset[str]) -> dict[str, Scale]:
    """The scale of each part, as `SOURCE/PART`.

    older:     by source
    resampled: sources whose sample is of files that the store has documents of: nothing of them is new
    """
    scales = {}
    for built in rehearsal.of("documents"):
        source, parts = built.manifest.name, built.manifest.parts
        held = older.get(source, Older())
        own = {part.name: _own(rehearsal, f"{source}/{part.name}") for part in parts}
        text = sum(part.ledger.figures.get("text bytes", 0) * own[part.name].text for part in parts)
        for part in parts:
            scale = own[part.name]
            if source in resampled:
                factor = held.text_bytes / text if text else 0.0
                scale = Scale(documents=scale.documents * factor, text=scale.text * factor)
            elif text:
                scale = Scale(documents=scale.documents, text=scale.text, known=held.text_bytes / text)
            scales[f"{source}/{part.name}"] = scale
    return scales


def _own(rehearsal: Rehearsal, part: str) -> Scale:
    stratum = rehearsal.strata[part]
    records = stratum.records / max(1, len(stratum.sampled))
    characters = stratum.sampled_characters
    return Scale(documents=records, text=stratum.characters / characters if characters else records)


def scale_of(part: Part, scales: Mapping[str, Scale]) -> Scale:
    """The scale of a later stage's part, which is called after those of the documents."""
    return scales.get(part_key(part), Scale(documents=1.0, text=1.0))


def part_key(part: Part) -> str:
    """The part of the documents that a later stage's part is made of, as `SOURCE/PART`."""
    return f"{part.labels.get('source', '')}/{part.name.rpartition('-')[2]}"


def kept_share(documents: float, sampled: int, removed: int, singles: int) -> float:
    """The share of documents that are no copy of another, of which a sample has been looked at.

    removed: copies in the sample; singles: documents of it that are alone

    >>> kept_share(1_000, 1_000, 100, 800)
    0.9
    >>> round(kept_share(10_000, 1_000, 50, 900), 2), kept_share(10_000, 1_000, 0, 1_000)
    (0.52, 1.0)
    """
    if not sampled:
        return 1.0
    distinct = sampled - removed
    seen = distinct / sampled
    if documents <= sampled or not removed:
        return seen
    alone = min(singles, distinct)
    estimated = sampled * distinct / (sampled - alone + alone * sampled / documents) / documents
    weight = removed / (removed + FEW_COPIES)
    return weight * min(seen, estimated) + (1 - weight) * seen


def distinct_words(sampled: float, sampled_text: float, text: float) -> float:
    """How many different words a text has, by those of a sample of it."""
    return sampled * math.pow(max(1.0, text / max(1.0, sampled_text)), WORDS_POWER)


def unseen_factor(ratio: float, sampled_share: float) -> float:
    """How many times as many tokens a vocabulary makes of a text as of the sample that its size was tried on.

    ratio: of texts that it was not trained on

    >>> round(unseen_factor(1.21, 0.0), 2), unseen_factor(1.21, 1.0), unseen_factor(0.9, 0.0)
    (1.1, 1.0, 1.0)
    """
    bounded, unseen = min(2.0, max(1.0, ratio)), 1 - min(1.0, sampled_share)
    factor: float = bounded ** (unseen / 2)
    return factor
