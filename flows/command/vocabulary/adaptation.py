"""A vocabulary fitted to a domain: measured, given tokens, measured again, and written with its model.

    words of the domain ─► tokens chosen ─► vocabulary ─► (rows for a model) ─► a folder

Promise: nothing is written where anything is wrong. The figures come from the vocabularies' own encoding of the
counted words, not from the estimates by which tokens were chosen.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from corpora.errors import InputError
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
from tokenizers_train.measures.measure import Measures, cut_words, measure, measure_sources, unknown_id
from tokenizers_train.vocabularies.vocabulary import Vocabulary


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
) -> tuple[Vocabulary, dict[str, Any]]:
    """Choose tokens by what the domain's words would save; return the new vocabulary, and the gain in figures.

    Raises InputError if no word of the domain is worth a token.
    """
    choices = choose_words(vocabulary, domain.together, wanted, settings)
    if not choices:
        raise InputError(
            f"No word of the corpus that the vocabulary cuts occurs {settings.min_count} times and is of "
            f"{settings.min_length} to {settings.max_length} {settings.characters}: it fits as it is. Lower "
            "--min-count, or give more text."
        )
    new = new_vocabulary(vocabulary, choices, APPEND if append else FILL)
    appended = new.size - vocabulary.size
    return new, {
        "size": {"before": vocabulary.size, "after": new.size},
        "wanted": wanted,
        "filled": len(choices) - appended,
        "appended": appended,
        "model_rows": None,
        "before": _fit(vocabulary, domain),
        "after": _fit(new, domain),
        "tokens": _added(vocabulary, new, choices),
    }


def _added(old: Vocabulary, new: Vocabulary, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """Return the tokens that were added, each with the pieces that its text had before."""
    pieces = pieces_before(old, new)
    return [
        {
            "token": new.display(number),
            "id": number,
            "count": choice.count,
            "saved": choice.saved,
            "pieces": [*map(old.display, pieces[number])],
        }
        for choice in choices
        for number in [new.id_of(choice.token)]
    ]


def _fit(vocabulary: Vocabulary, domain: DomainCounts) -> dict[str, Any]:
    """Measure a vocabulary on a domain whose words were counted by its rule. Every distinct word is encoded once."""
    pieces = cut_words(Encoder(vocabulary), domain.together)
    unknown, size = unknown_id(vocabulary), vocabulary.size
    sources = measure_sources(pieces, unknown, size, sorted(domain.sources.items()))
    return {
        **_measure_facts(measure(pieces, unknown, size)),
        "sources": {name: _measure_facts(measures) for name, measures in sources.items()},
    }


def _measure_facts(measures: Measures) -> dict[str, Any]:
    unknown_rate = measures.unknown_words / measures.words if measures.words else None
    shares = {"fertility": measures.fertility, "unknown_rate": unknown_rate, "whole_share": measures.whole_share}
    return {**asdict(measures), **shares}
