"""Abstracts with mentions, as PubTator's files and the NCBI disease corpus have them, as sentences of words and tags.

    10192393|t|A common human skin tumour ...          the title
    10192393|a|WNT signalling ...                      the abstract, one space after the title
    10192393<tab>15<tab>26<tab>skin tumour<tab>...     a mention: where it is in both, its text, its type

A word is a run of letters and digits, and each other character but spaces is a word. A sentence ends with the title,
and after `.`, `!` or `?` before a space and anything but a lowercase letter, but never within a mention. Tags are BIO.

Promise: every sentence is given with the place of each word in its document, or counted: where a mention in it does not
begin and end with words, lies over another, or has another text. Memory: one document.
Cost: 430,000 words a second (one x86-64 core, 2026-11-23).
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from trainer.tasks.formats.records import FileSettings, Found, Unusable, Wanted, numbered_lines

MENTION_ROLES = ("words", "tags", "document", "id", "offsets")
WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])")
HEAD = re.compile(r"([^|\t]+)\|([ta])\|(.*)")


class Mention(NamedTuple):
    """A span of a document's characters. line: its line in the file."""

    start: int
    end: int
    text: str
    kind: str
    line: int


def pubtator_records(settings: FileSettings, _: Wanted, kind: str = "") -> Iterator[Found]:
    """The sentences of a file. kind: one name for all types of mentions; "": their own."""
    for number, lines in enumerate(_documents(settings.path), 1):
        yield from _sentences(lines, number, kind)


ncbi_records = partial(pubtator_records, kind="Disease")  # as the corpus is scored


def _documents(path: str) -> Iterator[list[tuple[int, str]]]:
    """The lines of each document with their numbers."""
    for is_blank, lines in groupby(numbered_lines(path), key=lambda each: not each[1].strip()):
        if not is_blank:
            yield [(number, line.rstrip("\r\n")) for number, line in lines]


def _sentences(lines: Sequence[tuple[int, str]], number: int, kind: str) -> Iterator[Found]:
    """Yield the sentences of a document, or the reason there are none."""
    heads = {match[2]: match for _, line in lines[:2] if (match := HEAD.fullmatch(line))}
    first = lines[0][0]
    if len(heads) < 2 or heads["t"][1] != heads["a"][1]:
        yield first, Unusable("a document without title and abstract")
        return
    name, title, abstract = heads["t"][1], heads["t"][3], heads["a"][3]
    text = f"{title} {abstract}"
    mentions = list[Mention]()
    for line, columns in ((line, columns.split("\t")) for line, columns in lines[2:]):
        if len(columns) < 5:  # a relation between concepts
            continue
        if not columns[1].isdecimal() or not columns[2].isdecimal():
            yield line, Unusable("a document with a mention without place", f"document {name}")
            return
        mentions.append(Mention(int(columns[1]), int(columns[2]), columns[3], kind or columns[4], line))
    mentions.sort()
    for place, (start, end) in enumerate(_bounds(text, len(title), mentions)):
        inside = [mention for mention in mentions if start <= mention.start < end]
        words = [(match.start(), match.end()) for match in WORD.finditer(text, start, end)]
        try:
            tags = _tags(text, words, inside)
        except Unusable as error:
            yield first if not inside else inside[0].line, Unusable(str(error), error.where or f"document {name}")
            continue
        spans = [text[begin:stop] for begin, stop in words]
        yield first, {"words": spans, "tags": tags, "document": number, "id": f"{name}.{place}", "offsets": words}
    for mention in mentions:
        if mention.start >= len(text):
            yield mention.line, Unusable("a mention beyond its document", f"document {name}")


def _bounds(text: str, title: int, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each sentence that has words."""
    ends = [title, *(match.start() for match in SENTENCE_END.finditer(text, title + 1)), len(text)]
    start = 0
    for end in ends:
        if any(mention.start < end < mention.end for mention in mentions):
            continue
        if WORD.search(text, start, end):
            yield start, end
        start = end


def _tags(text: str, words: Sequence[tuple[int, int]], mentions: Sequence[Mention]) -> list[str]:
    """Return a tag for each word. Raises Unusable."""
    begins = {start: place for place, (start, _) in enumerate(words)}
    ends = {end: place for place, (_, end) in enumerate(words)}
    tags = ["O"] * len(words)
    for mention in mentions:
        where = f"at character {mention.start}, {mention.text!r}"
        if text[mention.start : mention.end] != mention.text:
            raise Unusable("a sentence with a mention whose text is another", where)
        first, last = begins.get(mention.start), ends.get(mention.end)
        if first is None or last is None:
            raise Unusable("a sentence with a mention that begins or ends within a word", where)
        if any(tag != "O" for tag in tags[first : last + 1]):
            raise Unusable("a sentence with mentions that overlap", where)
        tags[first : last + 1] = [f"B-{mention.kind}"] + [f"I-{mention.kind}"] * (last - first)
    return tags
