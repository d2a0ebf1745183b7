"""Scores of tagged sentences: named entities as spans, and tokens.

A tag is a letter, a hyphen and a type (`B-PER`); `O`, which belongs to no span; or a type alone, which is read as
`I-` of it, so files with only the type of a token (IO) are read as well. A letter alone has the type "".
`B` begins a span, `I` continues it; `E` or `L` is its last token, `S` or `U` its only one (BIOES is BILOU).

Sequences that are not spans of their scheme are read as conlleval does (the script of CoNLL-2000, Tjong Kim Sang and
Buchholz): a span begins at a tag that is not O, where the tag is B or S, or the tag before it is O, E or S or has
another type; it ends before the next such place or O. So `O I-PER` is a span, and `B-PER I-LOC` are two.

A span is right where sentence, first token, last token and type are the same. Cost: 0.4 s for a million tokens.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Int64s
from trainer.tasks.scores.texts import rates

_O, _B, _I, _E, _S = range(5)
_CODES = {"B": _B, "I": _I, "E": _E, "L": _E, "S": _S, "U": _S}

# Shapes: T tokens of all sentences, each sentence with one O before it; S spans; K types.


class TaggedSpan(NamedTuple):
    """first, last: its tokens, from 0 in their sentence, both in it."""

    type: str
    first: int
    last: int


class _Spans(NamedTuple):
    """last_T: at a token where a span begins, its last token, else -1. type_T: the number of its type."""

    last_T: Int64s
    type_T: Int64s


def span_scores(gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """precision, recall and f1 of all spans together, and token_accuracy: the share of tokens with the very tag.

    A score is 0 where it would be a share of nothing: f1 where neither side has a span.

    >>> span_scores([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])["precision"]
    0.5
    """
    right, answered, wanted = span_counts(gold, answers).sum(0).tolist()
    return {**rates(right, answered, wanted)._asdict(), "token_accuracy": token_accuracy(gold, answers)}


def token_accuracy(gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> float:
    """The share of tokens with the very tag, over all sentences: the score of part of speech, where any text is a tag.

    >>> token_accuracy([["DET", "NOUN"], ["VERB"], []], [["DET", "VERB"], ["VERB"], []])
    0.6666666666666666
    """
    pairs = zip(chain.from_iterable(gold), chain.from_iterable(answers), strict=True)
    return sum(tag == other for tag, other in pairs) / sum(map(len, gold))


def span_counts(gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> Int64s:
    """Count right, answered and gold spans: [sentences, 3]. Sums of rows give scores of any set of sentences."""
    types: dict[str, int] = {}
    wanted, answered = _read(gold, types), _read(answers, types)
    sentence_T = np.repeat(np.arange(len(gold)), [len(tags) + 1 for tags in gold])
    begins_3 = (_right(wanted, answered), answered.last_T >= 0, wanted.last_T >= 0)
    counts: Int64s = np.stack([np.bincount(sentence_T[begin], minlength=len(gold)) for begin in begins_3], axis=1)
    return counts


def spans_of(tags: Sequence[str]) -> list[TaggedSpan]:
    """Return the spans of one sentence, in their order.

    >>> spans_of(["I-PER", "B-LOC"])
    [TaggedSpan(type='PER', first=0, last=0), TaggedSpan(type='LOC', first=1, last=1)]
    """
    types: dict[str, int] = {}
    spans = _read([tags], types)
    names = list(types)
    return [
        TaggedSpan(names[spans.type_T[at]], int(at) - 1, int(spans.last_T[at]) - 1)
        for at in np.flatnonzero(spans.last_T >= 0)
    ]


def _right(wanted: _Spans, answered: _Spans) -> Bools:
    """Mark where a span begins that both sides have."""
    both: Bools = (answered.last_T >= 0) & (wanted.last_T == answered.last_T) & (wanted.type_T == answered.type_T)
    return both


def _read(sentences: Sequence[Sequence[str]], types: dict[str, int]) -> _Spans:
    """Types that are met for the first time are numbered."""
    codes: dict[str, int] = {"O": _O}  # of each tag: 5 x type + letter
    flat: list[int] = []
    for tags in sentences:
        for tag in tags:
            if tag not in codes:
                codes[tag] = _code(tag, types)
        flat += [_O, *(codes[tag] for tag in tags)]
    code_T = np.array(flat, np.int64)
    letter_T, type_T = code_T % 5, code_T // 5
    begin_T = _begins(letter_T, type_T)
    inside_T = letter_T != _O
    first_S = np.flatnonzero(begin_T)
    edges = np.append(np.flatnonzero(begin_T | ~inside_T), len(code_T))  # a span ends before the next of these
    last_S = edges[np.searchsorted(edges, first_S, side="right")] - 1
    last_T = np.full(len(code_T), -1)
    last_T[first_S] = last_S
    return _Spans(last_T, type_T)


def _begins(letter_T: Int64s, type_T: Int64s) -> Bools:
    """The first token of all is an O, so that every other has one before it."""
    before_T, type_before_T = np.roll(letter_T, 1), np.roll(type_T, 1)
    own = np.isin(letter_T, (_B, _S))
    apart = np.isin(before_T, (_O, _E, _S)) | (type_T != type_before_T)
    begins: Bools = (letter_T != _O) & (own | apart)
    return begins


def _code(tag: str, types: dict[str, int]) -> int:
    """5 x type + letter, of a tag that is not O."""
    letter, _, name = tag.partition("-")
    if letter not in _CODES:
        letter, name = "I", tag
    return 5 * types.setdefault(name, len(types)) + _CODES[letter]
