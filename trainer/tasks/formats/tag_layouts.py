"""Formats of sentences with tagged words: columns as in CoNLL and Universal Dependencies, and mentions as in PubTator.

**Columns.** There is one word per line, with blank lines between sentences. Columns are separated by tabs, or by spaces
if the line has no tab. Plain files have the words in the first column and the tags in the last. A `.conllu` has them in
`form` and `upos`; its multiword ranges and empty nodes are skipped. `-DOCSTART-` and `# newdoc` start a document.

Before the first word of a sentence, a line of `#`, a space and more text is a comment, unless it has as many columns as
the sentence (then it is a word and its tag). So `#now` is a word. If the first column of a line is only `#`, the line
is a comment if the next word is numbered 1 (GermEval). In a `.conllu`, every line that starts with `#` is a comment.

Promise: every sentence is either yielded or counted as unusable. If the numbers of columns in a sentence differ, the
first such line is named. Memory: one sentence. Cost: 610,000 words per second, for a `.conllu` 400,000 (one x86-64
core, 2026-11-23).

**Mentions.** Abstracts as in PubTator's files and the NCBI disease corpus become sentences of words and tags.

    10192393|t|A common human skin tumour ...          the title
    10192393|a|WNT signalling ...                      the abstract, one space after the title
    10192393<tab>15<tab>26<tab>skin tumour<tab>...     a mention: start and end in both, its text, its type

A word is a run of letters and digits. Every other character except spaces is also a word. A sentence ends at the end of
the title, and after `.`, `!` or `?` if a space and then anything but a lowercase letter follows, but never within a
mention. Tags are BIO.

Promise: every sentence is yielded with the position of each word in its document, or counted as unusable if a mention
in it does not start and end at words, overlaps another mention, or has another text. Memory: one document. Cost:
430,000 words per second (one x86-64 core, 2026-11-23).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import dropwhile, groupby, islice, pairwise, takewhile
from typing import Any, NamedTuple

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, LineRecord, Roles, Unusable, convert_records, number_lines

SENTENCE_ROLES = ("words", "tags", "document", "id")
UD_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
MAX_SENTENCE_WORDS = 100_000  # of a sentence
SAMPLE_LINES = 1_000  # lines of a file whose ending is that of tables

Line = tuple[int, str]  # its number, and its text
Row = tuple[int, list[str]]  # and its columns


def read_conll(settings: FileSettings, _: Roles) -> Iterator[LineRecord]:
    """Yield the sentences of a file with one word per line, and blank lines between sentences.

    The columns of `words` and `tags` can be set as numbers, counted from 1 or, from the end, from -1. The defaults are
    the first and the last column. Records have the roles in SENTENCE_ROLES and the number of their first line.
    Sentences with lines that differ in their number of columns are yielded as `Unusable`.
    """
    words, tags = (_find_column(settings, role, column) for role, column in (("words", 1), ("tags", -1)))
    for lines, marks in _read_conll_sentences(settings.path):
        rows = _without_comments(lines)
        if rows:
            yield _make_sentence(rows, (words, tags), marks)


def is_like_conll(settings: FileSettings) -> bool:
    """Return True if a table looks like CoNLL: no header with the column of `words`, and blank lines near the start."""
    lines = [line.strip("\r\n") for _, line in islice(number_lines(settings.path), SAMPLE_LINES)]
    begun = list(dropwhile(lambda line: not line.strip(), lines))
    return bool(begun) and settings.get_column("words") not in begun[0].split("\t") and not all(map(str.strip, begun))


def read_iob1(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the sentences of a file with IOB1 tags, as in CoNLL-2003, or BIO tags. The tags are converted to BIO.

    Columns, records and errors are the same as for `read_conll`.
    """
    return convert_records(
        read_conll(settings, wanted),
        lambda values: {**values, "tags": None if values["tags"] is None else to_bio2(values["tags"])},
    )


def read_conllu(settings: FileSettings, _: Roles) -> Iterator[LineRecord]:
    """Yield the sentences of a `.conllu`, with the roles in SENTENCE_ROLES and the number of their first line.

    The columns of `words` and `tags` can be set as CoNLL-U names or as numbers from 1; the defaults are `form` and
    `upos`. Multiword ranges and empty nodes are skipped. If a tag of a sentence is `_`, the sentence has no tags.
    Sentences with lines that differ in their number of columns are yielded as `Unusable`.
    """
    words, tags = (_find_column(settings, role, at, UD_COLUMNS) for role, at in (("words", 2), ("tags", 4)))
    for lines, marks in _read_conll_sentences(settings.path, comments=True):
        rows = [(number, line.rstrip("\r\n").split("\t")) for number, line in lines]
        kept = [row for row in rows if len(row[1]) != len(UD_COLUMNS) or row[1][0].isdecimal()]
        if kept:
            sentence = _make_sentence(kept, (words, tags), marks, len(UD_COLUMNS))
            yield from convert_records(
                [sentence], lambda row: {**row, "tags": None if "_" in row["tags"] else row["tags"]}
            )


def to_bio2(tags: Sequence[str]) -> list[str]:
    """Convert the IOB1 or BIO tags of a sentence to BIO, in which every span begins with B-.

    >>> to_bio2(["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-ORG"])
    ['B-PER', 'I-PER', 'O', 'B-LOC', 'B-LOC', 'B-ORG']
    """
    return [
        f"B-{tag[2:]}" if tag.startswith("I-") and before[2:] != tag[2:] else tag
        for before, tag in pairwise(["O", *tags])
    ]


def _find_column(settings: FileSettings, role: str, default: int, names: Sequence[str] = ()) -> int:
    """Return the number of a role's column in a file of tagged words, from 1, or negative if counted from the end.

    Raises InputError if the settings do not give a valid column.

    Args:
        settings: The file and how to read it.
        role: "words" or "tags".
        default: The column if the settings name none.
        names: Names that the settings may use for the columns, in order.
    """
    name = settings.columns.get(role, str(default))
    if name in names:
        return names.index(name) + 1
    if not name.removeprefix("-").isdecimal() or not int(name):
        raise InputError(
            f"{settings.path}: {role} = {name!r} is not a column of it: give its number from 1, or from -1 for the "
            "last."
        )
    return int(name)


def _read_conll_sentences(path: str, comments: bool = False) -> Iterator[tuple[list[Line], Mapping[str, Any]]]:
    """Yield the lines of each sentence, and a dictionary with the number of its `document`, from 1, and its `id`.

    Either value is None if the file does not have it.

    Args:
        path: The file.
        comments: True if lines that begin with `#` are comments anywhere, not only before a sentence.

    Raises:
        InputError: If a sentence has more than MAX_SENTENCE_WORDS words.
    """
    lines = list[Line]()
    document: int | None = None
    name: str | None = None
    for number, line in number_lines(path):
        is_document, is_blank = line.startswith("-DOCSTART-"), not line.strip(" \t\r\n")
        if lines and (is_document or is_blank):
            yield lines, {"document": document, "id": name}
            lines, name = [], None
        is_comment = line.startswith("#") and (comments or not lines)
        if is_document or (is_comment and line.startswith("# newdoc")):
            document = (document or 0) + 1
        elif is_comment and line.startswith("# sent_id"):
            name = line.partition("=")[2].strip() or None
        if not is_blank and not is_document and not (comments and is_comment):
            lines.append((number, line))
        if len(lines) > MAX_SENTENCE_WORDS:
            raise InputError(
                f"{path}: the sentence that begins in line {lines[0][0]} has more than {MAX_SENTENCE_WORDS:,} words: "
                "are the blank lines between sentences missing?"
            )
    if lines:
        yield lines, {"document": document, "id": name}


def _split_columns(line: str) -> list[str]:
    line = line.rstrip("\r\n")
    return line.split("\t") if "\t" in line else [column for column in line.split(" ") if column]


def _without_comments(lines: list[Line]) -> list[Row]:
    """Remove the comments at the start of a sentence, and split the other lines into columns. Line numbers are kept."""
    rows = [(number, _split_columns(line)) for number, line in lines]
    width = len(rows[-1][1])
    if len(rows) > 1 and rows[0][1][0] == "#" and rows[1][1][0] == "1":
        return rows[1:]
    comments = len([*takewhile(lambda line: line[1].startswith("# ") and "\t" not in line[1], lines)])
    if comments < len(rows):
        comments = next((place for place in range(comments) if len(rows[place][1]) == width), comments)
    return rows[comments:]


def _make_sentence(lines: list[Row], columns: tuple[int, int], marks: Mapping[str, Any], width: int = 0) -> LineRecord:
    """Return the first line number and record of a sentence, or the number of an uneven line and `Unusable`.

    If there is only one column, the sentence has no tags.

    Args:
        lines: The numbered words of the sentence, each split into columns.
        columns: The numbers of the columns of words and tags, from 1, or negative if counted from the end.
        marks: Additional values of the record.
        width: The number of columns that each line must have; 0 to require as many as in the first line.
    """
    number = lines[0][0]
    width = width or len(lines[0][1])
    for line, cells in lines:
        if len(cells) != width:
            return line, Unusable("uneven columns", f"{len(cells)} of {width}")
    if max(map(abs, columns)) > width and not (width == 1 and columns[1] > 1):
        return number, Unusable(f"fewer than {max(map(abs, columns))} columns")
    words = _list_column(lines, columns[0])
    tags = None if width == 1 else _list_column(lines, columns[1])
    for (line, _), word, tag in zip(lines, words, tags or words, strict=True):
        if tags and " " in tag:
            return line, Unusable("a tag with blanks in it: a column of texts?")
        if not word.strip() or not tag.strip():
            return line, Unusable(f"an empty {'tag' if word.strip() else 'word'}")
    return number, {"words": words, "tags": tags, **marks}


def _list_column(lines: Sequence[Row], number: int) -> list[str]:
    return [columns[number - 1 if number > 0 else number] for _, columns in lines]


MENTION_ROLES = ("words", "tags", "document", "id", "offsets")
WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])")
HEAD = re.compile(r"([^|\t]+)\|([ta])\|(.*)")


class Mention(NamedTuple):
    """A span of characters in a document, with its type (`kind`).

    `line` is the line number in the file that lists it.
    """

    start: int
    end: int
    text: str
    kind: str
    line: int


def read_pubtator(settings: FileSettings, _: Roles, kind: str = "") -> Iterator[LineRecord]:
    """Yield the sentences of PubTator documents, with BIO tags for their mentions and the roles in MENTION_ROLES.

    Sentences and documents that cannot be tagged are yielded as `Unusable`.

    Args:
        settings: The file and how to read it.
        _: Not used; all roles of the format are read.
        kind: A type for all mentions. If "", each mention has its own type.
    """
    for number, lines in enumerate(_iter_documents(settings.path), 1):
        yield from _split_pubtator_sentences(lines, number, kind)


read_ncbi = partial(read_pubtator, kind="Disease")  # as the corpus is scored


def _iter_documents(path: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines of each PubTator document with their numbers. Blank lines separate documents."""
    for is_blank, lines in groupby(number_lines(path), key=lambda each: not each[1].strip()):
        if not is_blank:
            yield [(number, line.rstrip("\r\n")) for number, line in lines]


def _split_pubtator_sentences(lines: Sequence[tuple[int, str]], number: int, kind: str) -> Iterator[LineRecord]:
    """Yield the sentences of a document, or `Unusable` for a sentence or document that cannot be tagged.

    Args:
        lines: The numbered lines of the document.
        number: The number of the document, from 1.
        kind: A type for all mentions; "" if each mention has its own type.
    """
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
    for place, (start, end) in enumerate(_iter_sentence_bounds(text, len(title), mentions)):
        inside = [mention for mention in mentions if start <= mention.start < end]
        words = [(match.start(), match.end()) for match in WORD.finditer(text, start, end)]
        try:
            tags = _make_tags(text, words, inside)
        except Unusable as error:
            yield first if not inside else inside[0].line, Unusable(str(error), error.where or f"document {name}")
            continue
        spans = [text[begin:stop] for begin, stop in words]
        yield first, {"words": spans, "tags": tags, "document": number, "id": f"{name}.{place}", "offsets": words}
    for mention in mentions:
        if mention.start >= len(text):
            yield mention.line, Unusable("a mention beyond its document", f"document {name}")


def _iter_sentence_bounds(text: str, title: int, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset, in characters, of each sentence that has words.

    No sentence ends within a mention. `title` is the length of the title, which is a sentence.
    """
    ends = [title, *(match.start() for match in SENTENCE_END.finditer(text, title + 1)), len(text)]
    start = 0
    for end in ends:
        if any(mention.start < end < mention.end for mention in mentions):
            continue
        if WORD.search(text, start, end):
            yield start, end
        start = end


def _make_tags(text: str, words: Sequence[tuple[int, int]], mentions: Sequence[Mention]) -> list[str]:
    """Build the BIO tag of each word of a sentence from its mentions.

    Raises Unusable if a mention's text differs from the document, or if a mention splits a word or overlaps another.

    Args:
        text: The text of the document.
        words: The start and end offset of each word.
        mentions: The mentions.
    """
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
