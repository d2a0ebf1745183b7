"""A vocabulary fitted to a domain: measured, given tokens, measured again, and written with its model.

    words of the domain ─► tokens chosen ─► vocabulary ─► (rows for a model) ─► a folder

Promise: nothing is written where anything is wrong. The figures come from the vocabularies' own encoding of the
counted words, not from the estimates by which tokens were chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from corpora.errors import InputError
from corpora.store.manifest import Json
from flows.command.vocabulary.domain_counts import DomainCounts
from tokenizers_train.adapting.adapt import (
    APPEND,
    FILL,
    AdaptSettings,
    Choice,
    choose_words,
    new_vocabulary,
    pieces_before,
    slots_of,
)
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import Measures, aligned_counts, cut_words, measure, most_split
from tokenizers_train.vocabularies.vocabulary import Vocabulary

SPLIT = 8  # words split most that are shown
NO_TOKEN = -1  # in the place of an id that a vocabulary does not have


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A word that is cut: how often it occurs, and its pieces as people read them."""

    word: str
    count: int
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFit:
    """The fit of a vocabulary to a domain: to all of it, to each source, and the words that cost most tokens."""

    together: Measures
    sources: Mapping[str, Measures]
    split_most: tuple[Split, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A token that was added: its id, and the pieces of its text before."""

    token: str
    id: int
    count: int
    saved: int
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """The result. filled: tokens in the place of [unusedN]; rows: of the model, where there is one."""

    sizes: tuple[int, int]
    wanted: int
    added: tuple[Added, ...]
    filled: int
    before: DomainFit
    after: DomainFit
    rows: int | None = None


def number_wanted(vocabulary: Vocabulary, tokens: int | None, fill: bool) -> int:
    """Return how many tokens are asked for. Raises InputError unless it is one of --tokens N and --fill that can be."""
    if (tokens is None) == (not fill):
        raise InputError(
            "Set how many tokens to add: --tokens N, or --fill for as many as there are slots (one of the two)."
        )
    if tokens is not None:
        if tokens < 1:
            raise InputError(f"--tokens {tokens}: ask for one token or more.")
        return tokens
    slots = len(slots_of(vocabulary))
    if not slots:
        raise InputError(
            "--fill: the vocabulary has no unused slots ([unused0], ...) left to fill. Give --tokens N: then tokens "
            "are added after the last one, and the model gets rows for them."
        )
    return slots


def adapt_vocabulary(
    vocabulary: Vocabulary, domain: DomainCounts, wanted: int, settings: AdaptSettings, append: bool = False
) -> tuple[Vocabulary, Adaptation]:
    """Choose tokens by what the domain's words would save, and measure before and after.

    Raises InputError where no word of the domain is worth a token.
    """
    choices = choose_words(vocabulary, domain.together, wanted, settings)
    if not choices:
        raise InputError(
            f"No word of the corpus that the vocabulary cuts occurs {settings.min_count} times and is of "
            f"{settings.min_length} to {settings.max_length} {settings.characters}: it fits as it is. Lower "
            "--min-count, or give more text."
        )
    new = new_vocabulary(vocabulary, choices, APPEND if append else FILL)
    return new, Adaptation(
        sizes=(vocabulary.size, new.size),
        wanted=wanted,
        added=_added(vocabulary, new, choices),
        filled=len(choices) - (new.size - vocabulary.size),
        before=fit_of(vocabulary, domain),
        after=fit_of(new, domain),
    )


def _added(old: Vocabulary, new: Vocabulary, choices: Sequence[Choice]) -> tuple[Added, ...]:
    pieces = pieces_before(old, new)
    return tuple(
        Added(
            token=new.display(number),
            id=number,
            count=choice.count,
            saved=choice.saved,
            pieces=tuple(map(old.display, pieces[number])),
        )
        for choice in choices
        for number in [new.id_of(choice.token)]
    )


def fit_of(vocabulary: Vocabulary, domain: DomainCounts) -> DomainFit:
    """Measure a vocabulary on a domain whose words were counted by its rule. Every distinct word is encoded once."""
    pieces = cut_words(Encoder(vocabulary), domain.together)
    unknown, size = vocabulary.special_ids.get("unk", NO_TOKEN), vocabulary.size
    sources = {
        name: measure(pieces, unknown, size, aligned_counts(pieces.words, counts))
        for name, counts in domain.sources.items()
    }
    split = tuple(
        Split(word=word.word, count=word.count, pieces=tuple(map(vocabulary.display, word.ids)))
        for word in most_split(pieces, SPLIT)
    )
    return DomainFit(together=measure(pieces, unknown, size), sources=sources, split_most=split)


def adaptation_facts(adaptation: Adaptation) -> dict[str, Json]:
    """Return the result, as JSON for scripts."""
    return {
        "size": {"before": adaptation.sizes[0], "after": adaptation.sizes[1]},
        "wanted": adaptation.wanted,
        "filled": adaptation.filled,
        "appended": adaptation.sizes[1] - adaptation.sizes[0],
        "model_rows": adaptation.rows,
        "before": _fit_facts(adaptation.before),
        "after": _fit_facts(adaptation.after),
        "tokens": [asdict(added) for added in adaptation.added],
    }


def _fit_facts(fit: DomainFit) -> dict[str, Json]:
    return {
        **_measure_facts(fit.together),
        "sources": {name: _measure_facts(measures) for name, measures in fit.sources.items()},
        "split_most": [asdict(split) for split in fit.split_most],
    }


def _measure_facts(measures: Measures) -> dict[str, Json]:
    shares = {"fertility": measures.fertility, "unknown_rate": unknown_rate(measures)}
    return {**asdict(measures), **shares, "whole_share": measures.whole_share}


def unknown_rate(measures: Measures) -> float | None:
    """Return the share of words that are unknown; None where there are no words."""
    return measures.unknown_words / measures.words if measures.words else None
