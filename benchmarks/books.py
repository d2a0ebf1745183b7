"""Books measured: how much of a shelf of `.txt` and `.epub` files becomes text, and what remains of its matter.

    python -m benchmarks.books --text FOLDER

Nothing here asks the source what it cut: the marks of Gutenberg, the headings, the verse and the signs of matter
are searched by simpler rules of this module's own, in the raw file and in the resulting text. A
`BOOKS.tsv` in the folder (file, title, language, encoding) says what each file is; without it the encoding is
not judged. Source of the measures: what goes wrong in books by the issues of the tools that make such corpora.
"""

import argparse
import codecs
import csv
import html
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

from corpora.errors import InputError
from corpora.sources.books.encoding import text_encoding
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.contract import Record, StatCache, Tally, hash_files

SIGNS = re.compile(
    r"""Gutenberg | \betexts?\b | \be-texts?\b | electronic\ works? | Literary\ Archive | (?-i:\bDonat)(?:e|ions?)\ to\b
      | public\ domain | pgdp | Distributed\ Proof | (?-i:Produced\ by) | Transcriber | Small\ Print
      | Standard\ ?Ebooks | \bcolophon\b | uncopyright | Smashwords | \bISBN\b | all\ rights\ reserved
      | \bcopyright\ (?:\(c\)|©|\d{4}|by) | \(c\)\ ?\d{4} | personal\ enjoyment | re-?sold\ or\ given
      | \bis\ a\ work\ of\ fiction | (?-i:\bEbook|\beBook) | https?:// | www\. | \S@\w+\.(?:com|org|net)\b""",
    re.I | re.X,
)
LISTS = re.compile(r"\W*(?:table of )?contents\W*|\W*(?:list of )?illustrations\W*|\W*index\W*", re.I)
STARTS = re.compile(r"^\W*START OF TH(?:E|IS) PROJECT GUTENBERG.*|^\W*END\W*THE SMALL PRINT.*", re.I | re.M)
ENDS = re.compile(
    r"^\W*(?:END OF TH(?:E|IS) PROJECT GUTENBERG|(?:This is the )?End of (?:the )?Project Guten)", re.I | re.M
)
HEADING = re.compile(
    r"""(?:CHAPTER|BOOK|PART|LETTER|VOLUME|STAVE|CANTO|ACT|SCENE|Chapter|Book|Part|Letter|Volume|Act|Scene)
        [ .]+(?:the[ ])?(?:[IVXLC]+|\d{1,3}|[A-Z][A-Za-z-]{2,12})\b.{0,60}
      | (?:[IVXLC]{1,7}|\d{1,2})(?:[.:—-]{1,2}(?:[ ]*\S.{0,60})?)?""",
    re.X,
)
ENTRY = re.compile(r"(?:(?:CHAPTER|Chapter)[ .]+)?(?:[IVXLC]+|\d{1,3})\b|.*[ .]\d{1,3}$")
BLOCK = re.compile(r"(?:^.*\S.*\n?)+", re.M)
WORD = re.compile(r"[^\W_]+")
SIGNATURE_WORDS = 10  # by which the beginning of a chapter is recognized
PICTURE = re.compile(r"\[Illustration[^\]]*\]", re.I)
CHAPTER_WORDS = 25  # of the first paragraph after a heading that counts as prose
MOST_HEADINGS = 6  # paragraphs between a chapter's number and its prose
MOST_HEADER = 30_000
VERSE_INDENT, MOST_VERSE = 4, 62  # columns
WRAPPED = range(55, 81)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The measures of one book, or of all.

    encoding: files not read by their stated encoding
    words:    of the raw body, between Gutenberg's marks; kept: of the text
    chapters: headings that prose follows in the raw body; lost: those whose prose is not in the text
    signs:    lines of the text that only occur in matter; lists: paragraphs that head a list or index
    wrapped:  lines of 55 to 80 characters that stop within a sentence, which the next continues
    verse:    pairs of neighbouring lines in indented verse of the raw body; joined: those that are now one line
    """

    books: int = 0
    dropped: int = 0
    encoding: int = 0
    words: int = 0
    kept: int = 0
    chapters: int = 0
    lost: int = 0
    signs: int = 0
    lists: int = 0
    wrapped: int = 0
    verse: int = 0
    joined: int = 0

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(**{name: getattr(self, name) + getattr(other, name) for name in COLUMNS})


COLUMNS = tuple(field.name for field in fields(Measures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A book's measures, everything wrong in it as (measure, line), and its text."""

    file: str
    title: str
    text: str
    measures: Measures
    wrong: tuple[tuple[str, str], ...]


def measure_folder(folder: Path) -> list[Finding]:
    """Measure every book of a folder. Raises InputError where it holds none."""
    facts = _known(folder)
    source = BookCorpusSource(path=str(folder))
    return [
        measure_book(record, facts.get(file.name, {}))
        for file in hash_files(source.files(), StatCache())
        for piece in source.slices(file)
        for record in source.records(piece, Tally())
    ]


def _known(folder: Path) -> dict[str, dict[str, str]]:
    table = folder / "BOOKS.tsv"
    if not table.is_file():
        return {}
    with table.open(encoding="utf-8", newline="") as lines:
        return {row["file"]: row for row in csv.DictReader(lines, delimiter="\t")}


def measure_book(record: Record, facts: dict[str, str]) -> Finding:
    """Compare a record's text with its raw bytes, for an EPUB with what is in its pages without their tags."""
    file, text = record.locator.file, "" if record.drop else record.text
    plain = not file.endswith(".epub")
    encoding = (facts.get("encoding") or text_encoding(record.raw)) if plain else ""
    body = raw_body(record.raw.decode(encoding, "replace") if plain else marked_text(record.raw))
    beginnings, verse, squeezed = list(chapters(body)), list(verse_pairs(body)), squeeze(text)
    wrong = {
        "dropped": [f"{record.drop.reason}: {record.drop.detail}"] if record.drop else [],
        "encoding": [encoding] if plain and not _same_encoding(text_encoding(record.raw), encoding) else [],
        "lost": [heading for heading, words in beginnings if words not in squeezed],
        "signs": [line for line in text.split("\n") if SIGNS.search(line)],
        "lists": [block for block in text.split("\n\n") if LISTS.fullmatch(block.partition("\n")[0])],
        "wrapped": list(wrapped_lines(text)),
        "joined": [f"{one} {other}" for one, other in verse if f"{one} {other}" in text],
    }
    kept = len(WORD.findall(text))
    return Finding(
        file=file,
        title=record.title or "",
        text=text,
        measures=Measures(
            books=1,
            words=len(WORD.findall(body)),
            kept=kept,
            chapters=len(beginnings),
            verse=len(verse),
            **{measure: len(lines) for measure, lines in wrong.items()},
        ),
        wrong=tuple((measure, line) for measure, lines in wrong.items() for line in lines),
    )


def _same_encoding(one: str, other: str) -> bool:
    """Return whether two names mean one encoding; plain ASCII is any, and Latin-1 the lesser windows-1252."""
    names = {codecs.lookup(name).name.replace("-sig", "").replace("iso8859-1", "cp1252") for name in (one, other)}
    return len(names) == 1 or "ascii" in names


def marked_text(epub: bytes) -> str:
    """Return the text of all pages of an EPUB, a blank line in place of each tag of a paragraph or heading."""
    with zipfile.ZipFile(io.BytesIO(epub)) as archive:
        names = [name for name in sorted(archive.namelist()) if name.endswith((".xhtml", ".html", ".htm"))]
        pages = [archive.read(name).decode("utf-8", "replace") for name in names]
    marked = "\n\n".join(re.sub(r"(?s)<head\b.*?</head>|<\?.*?\?>", "", page) for page in pages)
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"</?(?:p|h\d|div|li|br|td)\b[^>]*>", "\n\n", marked)))


def raw_body(text: str) -> str:
    """Return what is between the marks of Project Gutenberg, or everything where there are none.

    >>> raw_body("*** START OF THIS PROJECT GUTENBERG EBOOK EMMA ***\\nShe.\\nEnd of Project Gutenberg's Emma")
    '\\nShe.\\n'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    starts = [match.end() for match in STARTS.finditer(text, 0, MOST_HEADER)]
    ends = ENDS.search(text, starts[-1] if starts else 0)
    return text[starts[-1] if starts else 0 : ends.start() if ends else len(text)]


def squeeze(text: str) -> str:
    """Return only the letters and digits of a text.

    >>> squeeze("_To-morrow_ at\\n9!")
    'tomorrowat9'
    """
    return "".join(WORD.findall(text.lower()))


def chapters(body: str) -> Iterator[tuple[str, str]]:
    """Yield (heading, the beginning of its prose squeezed) of each chapter of a raw body.

    >>> list(chapters("CHAPTER I\\n\\n" + "It was a dark and stormy night. " * 5))
    [('CHAPTER I', 'itwasadarkandstormynightitwasa')]
    """
    blocks = [PICTURE.sub("", block[0]).strip() for block in BLOCK.finditer(body)]
    blocks = [block for block in blocks if block]
    for index, block in enumerate(blocks):
        if not _is_heading(block):
            continue
        heading, _, rest = block.partition("\n")
        for after in [rest, *blocks[index + 1 : index + 1 + MOST_HEADINGS]]:
            if _is_listed(after) or (after and after is not rest and _is_heading(after)):
                break
            if after is rest and after[:1].islower():
                break  # not a heading, but a line of prose that begins with a number
            words = WORD.findall(after.lower())
            if len(words) >= CHAPTER_WORDS and re.search(r"[.!?]", after):
                yield heading.strip(), "".join(words[:SIGNATURE_WORDS])
                break


def _is_heading(block: str) -> bool:
    return HEADING.fullmatch(block.partition("\n")[0].strip(" _")) is not None


def _is_listed(block: str) -> bool:
    """Return whether a block is a list of chapters: most of its lines have a number before or after."""
    lines = [line.strip() for line in block.split("\n")]
    return len(lines) > 2 and 2 * sum(bool(ENTRY.match(line)) for line in lines) > len(lines)


def wrapped_lines(text: str) -> Iterator[str]:
    """Yield lines of the length of wrapped ones that end within a sentence which continues below in a small letter."""
    for line, after in pairwise(text.split("\n")):
        if len(line) in WRAPPED and line[-1].isalnum() and after[:1].islower():
            yield line


def verse_pairs(body: str) -> Iterator[tuple[str, str]]:
    """Yield neighbouring lines of indented verse: blocks of four or more lines, all short and with a capital."""
    for block in BLOCK.finditer(body):
        lines = block[0].expandtabs(4).rstrip("\n").split("\n")
        bare = [" ".join(line.replace("_", "").split()) for line in lines]
        indented = min(len(line) - len(line.lstrip()) for line in lines) >= VERSE_INDENT
        if len(lines) >= 4 and indented and max(map(len, bare)) <= MOST_VERSE and all(map(_has_capital, bare)):
            yield from pairwise(bare)


def _has_capital(line: str) -> bool:
    word = re.search(r"[^\W\d_]", line)
    return word is not None and word[0].isupper()


def word_f1(one: str, other: str) -> float:
    """Return 2 * words in common / all words, each text's words a multiset, without case.

    >>> word_f1("One two", "two, three")
    0.5
    """
    left, right = (Counter(WORD.findall(text.lower())) for text in (one, other))
    return 2 * (left & right).total() / max(left.total() + right.total(), 1)


def twins(findings: Sequence[Finding]) -> Iterator[tuple[Finding, Finding, float]]:
    """Yield each EPUB with the text file of its title that it agrees with best, and how far."""
    for epub in findings:
        same = [other for other in findings if other.file.endswith(".txt") and _bare(other.title) == _bare(epub.title)]
        if epub.file.endswith(".epub") and same:
            yield max(((epub, other, word_f1(epub.text, other.text)) for other in same), key=lambda each: each[2])


def _bare(title: str) -> str:
    """Return a title without its article and what is after a colon."""
    return squeeze(re.sub(r"^(?:the|a)\b", "", title.partition(":")[0].lower()))


def lines_of(findings: Sequence[Finding], examples: int) -> Iterator[str]:
    """Yield the table: each book with something wrong, all of them in sum, and EPUBs next to their texts."""
    names = [name for name in COLUMNS if name != "books"]
    total = sum((finding.measures for finding in findings), Measures())
    yield "  ".join(f"{name:>8}" for name in names) + "  share kept  file"
    for finding in findings:
        yield f"{_row(finding.measures, names)}  {finding.file}"
        shown = Counter[str]()
        for measure, line in finding.wrong:
            shown[measure] += 1
            if shown[measure] <= examples:
                yield f"    {measure}: {line[:150]!r}"
    yield f"{_row(total, names)}  {total.books} books"
    yield from (f"{epub.file} and {other.file}: F1 of their words {f1:.4f}" for epub, other, f1 in twins(findings))


def _row(measures: Measures, names: Sequence[str]) -> str:
    cells = "  ".join(f"{getattr(measures, name):>8}" for name in names)
    return f"{cells}  {measures.kept / max(measures.words, 1):>10.4f}"


def main() -> None:
    """Measure a folder as the arguments say; ends with exit code 2 where it holds no books."""
    story = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.books", description=story)
    parser.add_argument("--text", type=Path, required=True, help="a folder of .txt and .epub")
    parser.add_argument("--examples", type=int, default=2, help="lines shown of what is wrong (default: 2 of a kind)")
    arguments = parser.parse_args()
    try:
        findings = measure_folder(arguments.text)
    except InputError as error:
        parser.error(str(error))
    print("\n".join(lines_of(findings, arguments.examples)))


if __name__ == "__main__":
    main()
