"""Sentences of words with tags, as CoNLL's shared tasks and Universal Dependencies publish them.

A word a line, its columns cut at tabs, or at spaces where a line has no tab; blank lines between sentences. Plain files
have the words in their first column and the tags in the last; a `.conllu` has them in `form` and `upos`, and its
multiword ranges and empty nodes are passed over. `-DOCSTART-` and `# newdoc` begin a document.

A line of `#`, a space and more is a comment before the first word of a sentence, unless it has as many columns as the
sentence (then it is a word and its tag); so `#now` is a word. A line whose first column is `#` is a comment before a
first word that is numbered 1 (GermEval). In a `.conllu` every line that begins with `#` is one.

Promise: every sentence is given or counted, an uneven one with the line that is uneven. Memory: one sentence.
Cost: 610,000 words a second, of a `.conllu` 400,000 (one x86-64 core, 2026-11-23).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, islice, pairwise, takewhile
from typing import Any

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, Found, Unusable, Wanted, converted, numbered_lines

SENTENCE_ROLES = ("words", "tags", "document", "id")
UD_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
MOST_WORDS = 100_000  # of a sentence
LOOKED_AT = 1_000  # lines of a file whose ending is that of tables

Line = tuple[int, str]  # its number, and its text
Row = tuple[int, list[str]]  # and its columns


def conll_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """The sentences of a file of plain columns. columns: `words` and `tags` by number, from the end if below zero."""
    words, tags = (_number(settings, role, column) for role, column in (("words", 1), ("tags", -1)))
    for lines, marks in _sentences(settings.path):
        rows = _without_comments(lines)
        if rows:
            yield _sentence(rows, (words, tags), marks)


def looks_like_conll(settings: FileSettings) -> bool:
    """Tells whether a file has a word a line: no head with the column of the words, and a blank line between two."""
    lines = [line.strip("\r\n") for _, line in islice(numbered_lines(settings.path), LOOKED_AT)]
    begun = list(dropwhile(lambda line: not line.strip(), lines))
    return bool(begun) and settings.column("words") not in begun[0].split("\t") and not all(map(str.strip, begun))


def iob1_records(settings: FileSettings, wanted: Wanted) -> Iterator[Found]:
    """The sentences of a file of plain columns with tags of IOB1, as CoNLL-2003's, or of BIO; they become BIO's."""
    return converted(
        conll_records(settings, wanted),
        lambda values: {**values, "tags": None if values["tags"] is None else bio2(values["tags"])},
    )


def conllu_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """The sentences of a `.conllu`. columns: `words` and `tags` by CoNLL-U's names, `upos` or `xpos`, or by number."""
    words, tags = (_number(settings, role, at, UD_COLUMNS) for role, at in (("words", 2), ("tags", 4)))
    for lines, marks in _sentences(settings.path, comments=True):
        rows = [(number, line.rstrip("\r\n").split("\t")) for number, line in lines]
        kept = [row for row in rows if len(row[1]) != len(UD_COLUMNS) or row[1][0].isdecimal()]
        if kept:
            sentence = _sentence(kept, (words, tags), marks, len(UD_COLUMNS))
            yield from converted([sentence], lambda values: {**values, "tags": _known(values["tags"])})


def _known(tags: list[str]) -> list[str] | None:
    """Return tags, or None where one is left open."""
    return None if "_" in tags else tags


def bio2(tags: Sequence[str]) -> list[str]:
    """Tags of BIO in which every chunk begins with B-, also where they were those of CoNLL-2003's files (IOB1).

    >>> bio2(["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-ORG"])
    ['B-PER', 'I-PER', 'O', 'B-LOC', 'B-LOC', 'B-ORG']
    """
    return [
        f"B-{tag[2:]}" if tag.startswith("I-") and before[2:] != tag[2:] else tag
        for before, tag in pairwise(["O", *tags])
    ]


def _number(settings: FileSettings, role: str, otherwise: int, names: Sequence[str] = ()) -> int:
    """The number of a role's column: from 1, or from the end if below zero. Raises InputError."""
    name = settings.columns.get(role, str(otherwise))
    if name in names:
        return names.index(name) + 1
    if not name.removeprefix("-").isdecimal() or not int(name):
        raise InputError(
            f"{settings.path}: {role} = {name!r} is not a column of it: give its number from 1, or from -1 for the "
            "last."
        )
    return int(name)


def _sentences(path: str, comments: bool = False) -> Iterator[tuple[list[Line], Mapping[str, Any]]]:
    """Yield the lines of each sentence, and its document and id, None where none is marked. Raises InputError.

    comments: `#` begins one anywhere
    """
    lines = list[Line]()
    document: int | None = None
    name: str | None = None
    for number, line in numbered_lines(path):
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
        if len(lines) > MOST_WORDS:
            raise InputError(
                f"{path}: the sentence that begins in line {lines[0][0]} has more than {MOST_WORDS:,} words: are "
                "the blank lines between sentences missing?"
            )
    if lines:
        yield lines, {"document": document, "id": name}


def _columns(line: str) -> list[str]:
    line = line.rstrip("\r\n")
    return line.split("\t") if "\t" in line else [column for column in line.split(" ") if column]


def _without_comments(lines: list[Line]) -> list[Row]:
    """The lines after those that are comments, as columns."""
    rows = [(number, _columns(line)) for number, line in lines]
    width = len(rows[-1][1])
    if len(rows) > 1 and rows[0][1][0] == "#" and rows[1][1][0] == "1":
        return rows[1:]
    comments = len([*takewhile(lambda line: line[1].startswith("# ") and "\t" not in line[1], lines)])
    if comments < len(rows):
        comments = next((place for place in range(comments) if len(rows[place][1]) == width), comments)
    return rows[comments:]


def _sentence(lines: list[Row], columns: tuple[int, int], marks: Mapping[str, Any], width: int = 0) -> Found:
    """Return the words and tags of a sentence; without tags where the file has only one column."""
    number = lines[0][0]
    width = width or len(lines[0][1])
    for line, cells in lines:
        if len(cells) != width:
            return line, Unusable("uneven columns", f"{len(cells)} of {width}")
    if max(map(abs, columns)) > width and not (width == 1 and columns[1] > 1):
        return number, Unusable(f"fewer than {max(map(abs, columns))} columns")
    words = _column(lines, columns[0])
    tags = None if width == 1 else _column(lines, columns[1])
    for (line, _), word, tag in zip(lines, words, tags or words, strict=True):
        if tags and " " in tag:
            return line, Unusable("a tag with blanks in it: a column of texts?")
        if not word.strip() or not tag.strip():
            return line, Unusable(f"an empty {'tag' if word.strip() else 'word'}")
    return number, {"words": words, "tags": tags, **marks}


def _column(lines: Sequence[Row], number: int) -> list[str]:
    return [columns[number - 1 if number > 0 else number] for _, columns in lines]
