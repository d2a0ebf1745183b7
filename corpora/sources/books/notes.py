"""Footnotes of plain-text books: the notes go, and so do their marks in the text.

    ... a remarkable beast.[1]      the mark goes
    [1] Vulture.                    a paragraph that begins with a mark which is before it goes
    FOOTNOTES:                      such a heading goes, and near the book's end all that follows it

Promises: pure functions on a book's paragraphs. A paragraph goes only where its mark is referred to in one of
the `NOTE_WITHIN` before it, or under a heading of notes near the end; a mark goes only where there are such notes, but
for a letter in brackets after a word, `[A]`, which is a mark anywhere.
Costs: about 100 MB a second.
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re

NOTE_WITHIN = 80  # paragraphs
NOTES_SHARE = 0.1  # of the book, in which notes gathered at its end may be
MOST_NOTE = 3_000  # characters
HEADING = re.compile(r"\W*(?:foot|end)notes?\W*", re.I)
MARKED = re.compile(r"[\[{*†‡]")
NOTE = re.compile(r"(?P<mark>\[(?:\d{1,3}|[A-Z])\]|\{\d{1,3}[a-z]?\}|[*†‡](?=[^*]))[ ]*(?=\S)")
REFERENCE = re.compile(
    r"(?<=[\w.,;:!?\"'”’)—-])(?:\[(?:\d{1,3}|[A-Z])\]|\{\d{1,3}[a-z]?\})|(?<=[a-z.,;:!?\"'”’)])[*†‡](?![*†‡\w])"
)


def cut_footnotes(blocks: list[str]) -> list[str]:
    """Paragraphs without footnotes and their marks.

    >>> cut_footnotes(["The aasvögel[1] flew.", "[1] Vulture.", "It was late."])
    ['The aasvögel flew.', 'It was late.']
    """
    kept = blocks[: _notes_start(blocks)]
    if not any(MARKED.search(block) or HEADING.fullmatch(block) for block in kept):
        return kept
    notes = _notes(kept)
    marks = {*notes.values(), *(["[]"] if len(kept) < len(blocks) else [])}
    text = [block for index, block in enumerate(kept) if index not in notes and not HEADING.fullmatch(block)]
    return [_without_marks(block, marks) if MARKED.search(block) else block for block in text]


def _notes(blocks: list[str]) -> dict[int, str]:
    """The mark of each paragraph that is a note: one that begins with a mark which is in a paragraph before it."""
    seen: dict[str, int] = {}  # mark: the last paragraph that refers to it
    notes = {}
    for index, block in enumerate(blocks):
        if not MARKED.search(block):
            continue
        note = NOTE.match(block) if len(block) < MOST_NOTE else None
        if note and index - seen.get(note["mark"], -NOTE_WITHIN - 1) <= NOTE_WITHIN:
            notes[index] = note["mark"]
        else:
            seen.update(dict.fromkeys(REFERENCE.findall(block), index))
    return notes


def _without_marks(block: str, marks: set[str]) -> str:
    return REFERENCE.sub(lambda match: "" if _is_mark(match[0], marks) else match[0], block)


def _is_mark(mark: str, marks: set[str]) -> bool:
    """Return True if a mark is a note's, by the notes that were found; a letter in brackets needs none."""
    return mark in marks or mark[1:2].isupper() or ("[]" in marks and mark[0] in "[{")


def _notes_start(blocks: list[str]) -> int:
    """Return where the notes gathered at a book's end begin; the number of its paragraphs if there are none."""
    left = NOTES_SHARE * sum(map(len, blocks))
    for index in range(len(blocks) - 1, 0, -1):
        if HEADING.fullmatch(blocks[index]):
            return index
        left -= len(blocks[index])
        if left < 0:
            break
    return len(blocks)
