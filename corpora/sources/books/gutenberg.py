"""Project Gutenberg's matter around a book: its header read and cut, its license and its volunteers' notes cut.

Promises: pure functions. `cut_gutenberg` gives a text without Gutenberg's marks back as it was. What is cut between the
marks, and in books without them, is bounded: notes of transcribers go if they are in the first `FRONT_BLOCKS`
paragraphs, or in the last share of the book that `NOTES_SHARE` and `NOTES_CHARACTERS` allow, and paragraphs that name
Project Gutenberg if they are in the first ones too, or among the last `BACK_BLOCKS`.
Costs: a few regular expressions over the text, about 70 MB a second.

Source: the forms that Gutenberg's own files have had from 1991 (the "small print") to today (stars around
START and END); https://www.gutenberg.org/help/file_formats.html.
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re
from dataclasses import dataclass

FRONT_BLOCKS = 40
BACK_BLOCKS = 8
NOTES_SHARE = 0.05
NOTES_CHARACTERS = 4_000
HEADER_CHARACTERS = 30_000
MAX_NOTE_CHARACTERS = 1_500
LICENSE_CHARACTERS = 40_000  # at most after the text: the license has 19,000, and transcribers' notes may follow

STARRED_START = re.compile(
    r"^[ \t]*\*{3,}[ \t]*START OF (?:THE|THIS) PROJECT GUTENBERG(?:[^*\n]*(?:\n[^*\n]+){0,3}\*{3,}.*|.*)", re.M | re.I
)
SMALL_PRINT_END = re.compile(r"^[ \t]*\**END[ *]*THE SMALL PRINT!.*", re.M | re.I)
END = re.compile(
    r"""^[ \t]*(?:
        \*{3,}[ \t]*END\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG
      | \*{3,}[ \t]*START(?::\ FULL\ LICENSE|[ *]*THE\ SMALL\ PRINT)
      | ["“*_]*(?:This\ is\ the\ )?End\ of\ (?:the\ |this\ )?Project\ Gutenberg
    )""",
    re.M | re.I | re.X,
)
MENTION = re.compile(r"Project[ \n]Gutenberg|Gutenberg[ \n]E-?(?:text|book)", re.I)
NUMBER = re.compile(r"\[e-?(?:book|text) ?#(\d{1,9})\]", re.I)
FIELD = re.compile(
    r"^(?P<name>Title|Author|Language|Character set encoding):[ \t]*(?P<value>.*(?:\n[ \t]+\S.*)*)", re.M | re.I
)
HEADLINE = re.compile(
    r"Project Gutenberg(?:['’]s)?(?: (?:E-?text|E-?book|Edition)\b)?(?: of)?,? (?P<title>[^*\n]+?)"
    r"(?:,? by (?P<author>[^*\n]+?))?[ *]*$",
    re.M | re.I,
)
MONTHS = "January February March April May June July August September October November December".split()
DATED = re.compile(
    r"^[ \t]*(?P<what>Release Date:|Posting Date:|\[?Last updated|\[?Most recently updated|(?=\w+,? \d{4} +\[E))"
    rf"\D{{0,3}}?(?P<month>{'|'.join(MONTHS)})(?: (?P<day>\d\d?))?,? (?P<year>\d{{4}})",
    re.M | re.I,
)

VOLUNTEERS = re.compile(
    r"""
    Project[ ]Gutenberg | \bGutenberg[ ]Project | \be-?texts?[ ](?:was|is|were|prepared|by|edition)\b
  | Distributed[ ]Proofread | pgdp\.net | \betext[ ]transcriber
  | ^\W*(?:Produced|Prepared|Scanned|Digiti[sz]ed|E-?text[ ]prepared|Proofread)[ ](?:and[ ]\w+[ ])?by\b
  | \b(?:scanned|proof-?read)[ ]by[ ][A-Z] | ^\W*Transcribed[ ]from[ ]the\b | ^\W*HTML[ ]version[ ]by\b
  | Copyright[ ]laws[ ]are[ ]changing | Electronic[ ]Texts\*\* | Readable[ ]By[ ]Both[ ]Humans
  | ^\W*\#\d+[ ]in[ ]our[ ]series[ ]by | We[ ]need[ ]your[ ]donations
  | ^Corrected[ ]EDITIONS[ ]of[ ]our | \[filename\.ext\] | ^\W*Official[ ]release[ ]date
  | \bin[ ]italics[ ]in[ ]the[ ]original | \b_?underscores?_?\b[^.]*\bitalic | \bitalic[^.]*\bunderscores?\b
    """,
    re.I | re.X,
)
WHO_NOTES = r"(?:transcribers?|preparers?|redactors?|proofreaders?|e-?text editors?)['’]?s?['’]?"
NOTE = re.compile(rf"^\W*{WHO_NOTES}[ ]notes?\b|^\[(?:editor|redactor|transcriber)['’]s note:", re.I)
BACK_NOTE = re.compile(
    rf"^\W*(?:{WHO_NOTES}[ ](?:end )?notes?\b|(?:appendix: )?production notes\b"
    r"|typographical errors corrected|(?:the )?following typographical errors)",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GutenbergText:
    """A text without Project Gutenberg's header and license, and the metadata from the header.

    body:     the text
    marked:   True if Gutenberg's markers were found; otherwise the text is complete and all metadata is missing
    number:   number of the e-book at Project Gutenberg
    title:    title of the book
    author:   author of the book
    language: language as written in the header, such as "English"
    released: release date, such as "2004-10-02" or "1992-07"
    revision: latest date in the header as a number, such as 20180114
    """

    body: str
    marked: bool = False
    number: int | None = None
    title: str | None = None
    author: str | None = None
    language: str | None = None
    released: str | None = None
    revision: int | None = None


def cut_gutenberg(text: str) -> GutenbergText:
    """Remove Gutenberg's header and license from a text with `\\n` line endings.

    >>> book = cut_gutenberg("Title: Emma\\n*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\\nShe was.\\n")
    >>> book.title, book.body.strip()
    ('Emma', 'She was.')
    """
    start = STARRED_START.search(text) or SMALL_PRINT_END.search(text)
    begin = start.end() if start else 0
    end = END.search(text, begin)
    body = text[begin : end.start() if end else len(text)]
    headline = HEADLINE.search(text[:400])
    if start is None and end is None and headline is None:
        return GutenbergText(body=text)
    return _with_header(text[: min(begin or 2_000, HEADER_CHARACTERS)], body)


def cut_whole_book(text: str) -> str | None:
    """Return the text of a single complete Gutenberg book without header and license, or None for any other text.

    Files with several books, and texts that quote the markers far from their ends, are not cut, so that no text is
    lost.
    """
    start = STARRED_START.search(text) or SMALL_PRINT_END.search(text)
    begin = start.end() if start else 0
    end = END.search(text, begin)
    last = end.start() if end else len(text)
    near = begin <= HEADER_CHARACTERS and len(text) - last <= LICENSE_CHARACTERS
    prints = [match.end() for match in SMALL_PRINT_END.finditer(text, last)]  # some end with it, and others begin
    another = STARRED_START.search(text, last) or (prints and len(text) - prints[-1] > MAX_NOTE_CHARACTERS)
    book = cut_gutenberg(text)
    return book.body if near and not another and book.marked and (start or end) else None


def _with_header(header: str, body: str) -> GutenbergText:
    """Build the result of `cut_gutenberg` for a text with Gutenberg's markers, from its header and body."""
    fields: dict[str, str] = {}
    for match in FIELD.finditer(header):
        fields.setdefault(match["name"].lower(), " ".join(match["value"].split()))
    headline = HEADLINE.search(header[:400])
    number = NUMBER.search(header)
    released, revision = _find_dates(header)
    return GutenbergText(
        body=body,
        marked=True,
        number=int(number[1]) if number else None,
        title=fields.get("title") or (headline and headline["title"].strip(" ,")) or None,
        author=fields.get("author") or (headline and headline["author"]) or None,
        language=fields.get("language") or None,
        released=released,
        revision=revision,
    )


def _find_dates(header: str) -> tuple[str | None, int | None]:
    """Return the first date in a header, and the latest date as a number. Both are None if there is no date.

    Examples are "1992-07" and 19920700: the day is 0 if only the year and month are given.
    """
    dates = [
        (int(match["year"]), 1 + MONTHS.index(match["month"].capitalize()), int(match["day"] or 0))
        for match in DATED.finditer(header)
    ]
    if not dates:
        return None, None
    year, month, day = dates[0]
    released = f"{year:04}-{month:02}" + (f"-{day:02}" if day else "")
    return released, max(year * 10_000 + month * 100 + day for year, month, day in dates)


def find_stated_encoding(head: str) -> str | None:
    """Return the encoding named in Gutenberg's header, or None.

    >>> find_stated_encoding("Language: English\\n\\nCharacter set encoding: ISO-8859-1\\n")
    'ISO-8859-1'
    """
    for match in FIELD.finditer(head):
        if match["name"].lower().startswith("character"):
            return match["value"].strip() or None
    return None


def cut_notes(blocks: list[str]) -> list[str]:
    """Remove notes by Gutenberg's volunteers from both ends of a book's paragraphs."""
    kept = _cut_front_notes(blocks)
    total, after = sum(map(len, kept)), 0
    bound = max(NOTES_SHARE * total, NOTES_CHARACTERS)
    cut = len(kept)
    for index in range(len(kept) - 1, -1, -1):
        after += len(kept[index])
        if after > bound or after > total / 2:
            break
        if BACK_NOTE.search(" ".join(kept[index][:200].split())):
            cut = index
    tail = max(cut - BACK_BLOCKS, 0)
    return kept[:tail] + [block for block in kept[tail:cut] if not MENTION.search(block)]


def _cut_front_notes(blocks: list[str]) -> list[str]:
    """Remove volunteers' notes from the first 40 paragraphs of a book."""
    front, kept = blocks[:FRONT_BLOCKS], []
    index = 0
    while index < len(front):
        length = _count_note_paragraphs(front, index)
        if length == 0:
            kept.append(front[index])
        index += max(length, 1)
    return kept + blocks[max(index, len(front)) :]


def _count_note_paragraphs(blocks: list[str], index: int) -> int:
    """Return the number of paragraphs of the note that begins at `index`, or 0 if no note begins there."""
    block = " ".join(blocks[index][: 2 * MAX_NOTE_CHARACTERS].split())
    if NOTE.search(block):
        if block.startswith("[") and "]" not in block:
            ends = [later for later in range(index, min(index + 12, len(blocks))) if "]" in blocks[later]]
            return ends[0] - index + 1 if ends else 1
        heading_alone = len(block) < 40 and index + 1 < len(blocks)
        return 2 if heading_alone else 1
    return 1 if len(block) < MAX_NOTE_CHARACTERS and VOLUNTEERS.search(block) else 0
