"""Defines the counts of a document: its words, marks, lines, paragraphs, and what is repeated of them.

Promise: `measure` is the definition of the counts; `corpora.text.counts.kernels.measure_texts` gives the same for a
column. Cost: 0.9 MB a second; the kernels 120.

Choices that the papers leave open: a word is a run of characters other than white space, so the counts of words are for
languages that write spaces between them. A letter is an ASCII letter or anything beyond ASCII. A line is what is
between newlines, white space at its ends left out; blank lines are not counted. Characters are code points. White space
is every byte up to 0x20: cleaned text has no other. Stop words are looked up without case and without the punctuation
around them, each counted once.

An n-gram is a run of n words, equal to another if its words are, letter for letter. Its characters are those of its
words, without the white space between them, and shares of them are of the characters of all words. The most common
n-gram counts only if it occurs twice: its characters times its occurrences, the longest of equally common ones. A
repeated n-gram is one that occurs earlier in the document, as with lines; the characters of all of them are those of
the words they cover, each word once, wherever the n-grams overlap.

Sources: Rae et al. 2021 (Gopher), appendix A.1.1 and Table A1; Raffel et al. 2020 (C4), section 2.2; Xue et al. 2021
(mC4), section 3.1; Penedo et al. 2024 (FineWeb), section 3.6.
"""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from corpora.kernels.arrays import Int64s
from corpora.text.codepoints import BULLETS

Count = int | Int64s

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
SENTENCE_END = ".!?…"
_WIDE_END = "。！？"  # written without a space after it
CLOSING = "\"')]}”’»"
SHORT_LINE_CHARACTERS = 30  # FineWeb's short lines have fewer
LONG_LINE_CHARACTERS = 200  # mC4's long lines have as many or more
LINE_END = SENTENCE_END + _WIDE_END + CLOSING + "」』"
_SPACES = "".join(map(chr, range(0x21)))


class Counts(NamedTuple):
    """The counts that quality rules use: integers for one document, or int64 columns with an entry per document."""

    words: Count
    word_characters: Count
    alphabetic_words: Count
    stop_words: Count  # different ones
    hash_marks: Count
    ellipses: Count
    curly_braces: Count
    lorem_ipsum: Count
    sentences: Count
    newlines: Count
    lines: Count
    bullet_lines: Count
    ellipsis_lines: Count
    short_lines: Count
    long_lines: Count
    ended_lines: Count  # that end as a sentence does
    line_characters: Count
    ended_line_characters: Count
    repeated_lines: Count
    repeated_line_characters: Count
    paragraphs: Count
    paragraph_characters: Count
    repeated_paragraphs: Count
    repeated_paragraph_characters: Count
    top_2gram_characters: Count
    top_3gram_characters: Count
    top_4gram_characters: Count
    repeated_5gram_characters: Count
    repeated_6gram_characters: Count
    repeated_7gram_characters: Count
    repeated_8gram_characters: Count
    repeated_9gram_characters: Count
    repeated_10gram_characters: Count


def measure(text: str) -> Counts:
    """Compute the counts of one document as integers. The module docstring defines them.

    This is the reference implementation of `measure_texts`, for tests.
    """
    words = [word for word in re.split("[\0- ]+", text) if word]
    cores = [re.sub("^[\0-/:-@[-`{-\x7f]+|[\0-/:-@[-`{-\x7f]+$", "", word).encode().lower() for word in words]
    lines = [line for line in (line.strip(_SPACES) for line in text.split("\n")) if line]
    paragraphs = [part for part in (part.strip(_SPACES) for part in re.split("\n[\0- ]*\n", text)) if part]
    repeated_lines, repeated_paragraphs = _find_repeated(lines), _find_repeated(paragraphs)
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
        newlines=text.count("\n"),
        lines=len(lines),
        bullet_lines=sum(line.startswith(tuple(BULLETS)) for line in lines),
        ellipsis_lines=sum(line.endswith(("...", "…")) for line in lines),
        short_lines=sum(len(line) < SHORT_LINE_CHARACTERS for line in lines),
        long_lines=sum(len(line) >= LONG_LINE_CHARACTERS for line in lines),
        ended_lines=sum(line.endswith(tuple(LINE_END)) for line in lines),
        line_characters=sum(map(len, lines)),
        ended_line_characters=sum(len(line) for line in lines if line.endswith(tuple(LINE_END))),
        repeated_lines=len(repeated_lines),
        repeated_line_characters=sum(map(len, repeated_lines)),
        paragraphs=len(paragraphs),
        paragraph_characters=sum(map(len, paragraphs)),
        repeated_paragraphs=len(repeated_paragraphs),
        repeated_paragraph_characters=sum(map(len, repeated_paragraphs)),
        **{f"top_{length}gram_characters": _count_top_run(words, length) for length in range(2, 5)},
        **{f"repeated_{length}gram_characters": _count_covered(words, length) for length in range(5, 11)},
    )


def _find_repeated(parts: list[str]) -> list[str]:
    """Return the strings that are equal to an earlier one in `parts`."""
    seen: set[str] = set()
    repeated = []
    for part in parts:
        if part in seen:
            repeated.append(part)
        seen.add(part)
    return repeated


def _list_runs(words: list[str], length: int) -> list[tuple[str, ...]]:
    """Return all runs of `length` consecutive words, in order; empty if there are fewer words."""
    return [*zip(*(words[start:] for start in range(length)), strict=False)]


def _count_top_run(words: list[str], length: int) -> int:
    """Return the number of characters in the most common run of `length` words, times its occurrences.

    If several runs are equally common, the longest counts. The result is 0 if no run repeats.
    """
    occurrences = Counter(_list_runs(words, length))
    most = max(occurrences.values(), default=0)
    widest = max((sum(map(len, run)) for run, times in occurrences.items() if times == most), default=0)
    return most * widest if most > 1 else 0


def _count_covered(words: list[str], length: int) -> int:
    """Count the characters of the words that belong to a repetition of an earlier run of `length` words.

    Each word counts once, even if it belongs to several repetitions.
    """
    seen: set[tuple[str, ...]] = set()
    characters = covered = 0
    for place, run in enumerate(_list_runs(words, length)):
        if run in seen:
            characters += sum(map(len, words[max(place, covered) : place + length]))
            covered = place + length
        seen.add(run)
    return characters
