"""What there is to count in a document: words, marks, lines, paragraphs, and what is repeated of them.

Promise: `measure` is the definition of the counts; `corpora.text.count_kernels.count` gives the same for a
column. Cost: 3 MB a second; the kernels 90.

Where the papers leave a choice, it is this. A word is a run of characters other than white space, so the
counts of words are for languages that write spaces between them. A letter is an ASCII letter or anything
beyond ASCII. A line is what stands between newlines, white space at its ends left out; blank lines are not
counted. Characters are code points. White space is every byte up to 0x20: cleaned text has no other. Stop
words are looked up without case and without the punctuation around them, each counted once.

Sources: Rae et al. 2021 (Gopher), appendix A.1.1 and Table A1; Raffel et al. 2020 (C4), section 2.2.
"""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import re
from itertools import pairwise
from typing import NamedTuple

from corpora.text.codepoints import BULLETS, Integers

Count = int | Integers

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
SENTENCE_END = ".!?…"
_WIDE_END = "。！？"  # written without a space behind
CLOSING = "\"')]}”’»"
LINE_END = SENTENCE_END + _WIDE_END + CLOSING + "」』"
_SPACES = "".join(map(chr, range(0x21)))


class Counts(NamedTuple):
    """What the rules compare: integers for one document, int64 columns for many."""

    words: Count
    word_characters: Count
    alphabetic_words: Count
    stop_words: Count  # different ones
    hash_marks: Count
    ellipses: Count
    curly_braces: Count
    lorem_ipsum: Count
    sentences: Count
    lines: Count
    bullet_lines: Count
    ellipsis_lines: Count
    line_characters: Count
    ended_line_characters: Count  # in lines that end as a sentence does
    repeated_lines: Count
    repeated_line_characters: Count
    paragraphs: Count
    paragraph_characters: Count
    repeated_paragraphs: Count
    repeated_paragraph_characters: Count


def measure(text: str) -> Counts:
    """The counts of one document."""
    words = [word for word in re.split("[\0- ]+", text) if word]
    cores = [re.sub("^[\0-/:-@[-`{-\x7f]+|[\0-/:-@[-`{-\x7f]+$", "", word).encode().lower() for word in words]
    lines = [line for line in (line.strip(_SPACES) for line in text.split("\n")) if line]
    paragraphs = [part for part in (part.strip(_SPACES) for part in re.split("\n[\0- ]*\n", text)) if part]
    repeated_lines, repeated_paragraphs = _repeated(lines), _repeated(paragraphs)
    return Counts(
        words=len(words),
        word_characters=sum(map(len, words)),
        alphabetic_words=sum(re.search("[A-Za-z\x80-\U0010ffff]", word) is not None for word in words),
        stop_words=len({word.encode() for word in STOP_WORDS} & {*cores}),
        hash_marks=text.count("#"),
        ellipses=len(re.findall(r"\.{3,}|…", text)),
        curly_braces=text.count("{") + text.count("}"),
        lorem_ipsum=sum(pair == (b"lorem", b"ipsum") for pair in pairwise(cores)),
        sentences=sum(word.rstrip(CLOSING).endswith(tuple(SENTENCE_END)) for word in words)
        + len(re.findall(f"[{_WIDE_END}]", text)),
        lines=len(lines),
        bullet_lines=sum(line.startswith(tuple(BULLETS)) for line in lines),
        ellipsis_lines=sum(line.endswith(("...", "…")) for line in lines),
        line_characters=sum(map(len, lines)),
        ended_line_characters=sum(len(line) for line in lines if line.endswith(tuple(LINE_END))),
        repeated_lines=len(repeated_lines),
        repeated_line_characters=sum(map(len, repeated_lines)),
        paragraphs=len(paragraphs),
        paragraph_characters=sum(map(len, paragraphs)),
        repeated_paragraphs=len(repeated_paragraphs),
        repeated_paragraph_characters=sum(map(len, repeated_paragraphs)),
    )


def _repeated(parts: list[str]) -> list[str]:
    """The parts that equal one before them."""
    seen: set[str] = set()
    repeated = []
    for part in parts:
        if part in seen:
            repeated.append(part)
        seen.add(part)
    return repeated
