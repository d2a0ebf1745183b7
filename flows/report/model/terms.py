"""The terms of a loss in words: the meaning of each, and which of them shows how well a model does.

Masked tokens are judged next to what guessing by frequency costs; every other term has a curve of its own. A
term without words here, of an objective from a package, goes by its name.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from trainer.metrics import Event

LOSS = "_loss"
OF_FREQUENCY = "unigram_loss"  # not a term: what guessing by frequency costs
MAIN = "masked"  # whose held-out loss is next to the unigram entropy of the same tokens


class TermWords(NamedTuple):
    """axis: of its curve; caption: its meaning, a sentence"""

    axis: str
    caption: str


WORDS: Mapping[str, TermWords] = MappingProxyType(
    {
        "masked": TermWords("masked loss, nats", "Masked loss, in nats a token."),
        "pair": TermWords("pair loss, nats", "Loss of pairs of segments, in nats a pair; guessing costs 0.69."),
        "replaced": TermWords(
            "replaced-token loss, nats",
            "Loss of telling replaced tokens from those that were there, in nats a token; guessing costs 0.69.",
        ),
        "soft": TermWords("soft loss, nats", "Loss against the probabilities of the teacher, in nats a token."),
        "cosine": TermWords("cosine loss", "How far vectors are from the teacher's: one less their cosine."),
    }
)


def words_of(term: str) -> TermWords:
    """Return the words for a term.

    >>> words_of("order").axis
    'order loss'
    """
    name = f"{term.replace('_', ' ')} loss"
    return WORDS.get(term, TermWords(name, f"{name[0].upper()}{name[1:]}."))


def terms_of(events: Iterable[Event]) -> list[str]:
    """Return the terms that events report, the one that is judged by frequency first.

    >>> terms_of([{"loss": 9.0, "pair_loss": 0.7, "masked_loss": 8.3, "unigram_loss": 6.0, "order_loss": None}])
    ['masked', 'pair']
    """
    met = {
        name.removesuffix(LOSS): None
        for event in events
        for name, value in event.items()
        if name.endswith(LOSS) and name != OF_FREQUENCY and value is not None
    }
    return sorted(met, key=lambda term: term != MAIN)


def main_term(events: Sequence[Event]) -> str:
    """Return the term by which a model is judged: of tokens that are guessed where there are such, finite or not.

    >>> main_term([{"masked_loss": None, "pair_loss": 0.7, "unigram_entropy": 5.0}]), main_term([{"pair_loss": 0.7}])
    ('masked', 'pair')
    """
    terms = terms_of(events)
    guesses = any(event.get("unigram_entropy") is not None for event in events)
    return next((term for term in terms if term == MAIN or not guesses), MAIN)
