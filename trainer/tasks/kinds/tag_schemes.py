"""Tags of spans in the schemes that files use: recognizing a scheme, and converting to another one.

    BIO1    B- only where a span follows another of its type (CoNLL-2003's files), else I-
    BIO2    every span begins with B-
    BIOES   the last word of several is E-, a word alone S-; with L- and U- it is BILOU
    IO      no span begins: two of one type that meet are one

Spans are what conlleval reads (`trainer.tasks.scores.tags`), so a sentence has the same ones in every scheme.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from trainer.tasks.scores.tags import spans_of

OUTSIDE = "O"
LETTERS: Mapping[str, str] = MappingProxyType({"bio2": "BI", "bioes": "BIES"})  # of the schemes that are learnt
_SPAN = re.compile(r"[BIESLU]-.+")


def are_spans(tags: Collection[str]) -> bool:
    """Tells whether tags are of spans: each but O begins or continues one.

    >>> are_spans({"O", "B-PER", "I-PER"}), are_spans({"B", "I", "O"}), are_spans({"NOUN", "X"}), are_spans({"O"})
    (True, True, False, False)
    """
    inside = {*tags} - {OUTSIDE}
    letters_alone = inside <= {*"BIESLU"} and bool(inside & {"B", "I"})
    return bool(inside) and (letters_alone or all(map(is_of_span, inside)))


def is_of_span(tag: str) -> bool:
    """Tells whether a tag begins or continues a span of some type.

    >>> [is_of_span(tag) for tag in ("B-PER", "X-PER", "B", "b-PER")]
    [True, False, False, False]
    """
    return _SPAN.fullmatch(tag) is not None


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """Return the scheme that sentences are in, as far as they show it.

    >>> scheme_of([["I-PER", "I-PER", "B-PER"]]), scheme_of([["B-PER", "I-PER"]]), scheme_of([["S-PER"]])
    ('BIO1', 'BIO2', 'BIOES')
    >>> scheme_of([["I-PER", "O"]])
    'IO'
    """
    letters, all_begin = set[str](), True
    for tags in sentences:
        for before, tag in pairwise([OUTSIDE, *tags]):
            letter, _, name = tag.partition("-")
            goes_on = before[:1] in ("B", "I") and before.partition("-")[2] == name
            all_begin &= letter != "I" or goes_on
            letters.add(letter)
    if letters & {*"ESLU"}:
        return "BIOES"
    if "B" not in letters:
        return "IO"
    return "BIO2" if all_begin else "BIO1"


def in_scheme(tags: Sequence[str], scheme: str) -> list[str]:
    """Return the same spans in another scheme, well formed.

    >>> in_scheme(["I-PER", "I-PER", "B-PER", "O", "I-LOC"], "bio2")
    ['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC']
    >>> in_scheme(["I-PER", "I-PER", "B-PER", "O", "I-LOC"], "bioes")
    ['B-PER', 'E-PER', 'S-PER', 'O', 'S-LOC']
    """
    converted = [OUTSIDE] * len(tags)
    for kind, first, last in spans_of(tags):
        letters = ["B", *"I" * (last - first)]
        if scheme == "bioes":
            letters[-1] = "S" if first == last else "E"
        converted[first : last + 1] = [tag_of(letter, kind) for letter in letters]
    return converted


def tag_of(letter: str, kind: str) -> str:
    """A tag. kind: "" where files have letters alone"""
    return f"{letter}-{kind}" if kind else letter


def may_follow(before: str | None, after: str | None, scheme: str) -> bool:
    """Tells whether a tag may come after another in a well-formed sentence. None: its begin, or its end.

    >>> [may_follow(before, "I-PER", "bio2") for before in ("B-PER", "I-PER", "B-LOC", "O", None)]
    [True, True, False, False, False]
    >>> [may_follow("B-PER", after, "bioes") for after in ("E-PER", "E-LOC", "O", None)]
    [True, False, False, False]
    """
    letter, _, kind = (before or OUTSIDE).partition("-")
    following, _, of = (after or OUTSIDE).partition("-")
    if following in ("I", "E"):
        return letter in ("B", "I") and kind == of
    return scheme != "bioes" or letter not in ("B", "I")
