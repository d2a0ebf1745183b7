"""Removes what is around the text of any book: copyright pages, license notes, contents, "about the author".

Promises: pure functions on a book's paragraphs. What they cut is bounded: matter of the front goes paragraph by
paragraph, out of the first `FRONT_CHARACTERS` and `FRONT_SHARE` of the characters; matter of the back goes from its
heading to the end, if that is no more than `BACK_CHARACTERS` and `BACK_SHARE` of them, nor than half; contents go from
their heading to the first heading that they name.
Costs: next to nothing, except `count_prose_words`, which reads until it has seen enough.

Source: the Smashwords Style Guide (what its books must say at the front and may say at the back).

Publishers' advertisements and catalogues after a book's end.

    THE END
    Popular Copyright Novels                    what follows the end is cut,
    Ask Your Dealer for a Complete List of ...  if it says more than once what only a catalogue says

Promises: pure functions on a book's paragraphs. Nothing before the last "THE END" or "FINIS" is cut; without such a
line a catalogue goes from its first sign, if signs follow one another to the book's end. No more is cut than
`MAX_CATALOGUE_SHARE` of the characters.
Costs: next to nothing: the search goes backwards from the end as far as that share.

Source: the back pages of reprints and series of 1890 to 1930, as Project Gutenberg's volunteers keep them.

Lists of contents and of illustrations at the beginning of a book, headed or not, and their ends.

    CONTENTS                      a list goes from its heading ...
    I. The Walk 3
    II. The Ball 9
    CHAPTER I                     ... to the first heading that it names, or to its last numbered entry

Promises: pure functions on a book's paragraphs. A list ends before the prose that follows it, and after
`MAX_ENTRIES` at the latest; if its end is not clear it stays. Beyond the first `CONTENTS_BLOCKS` a list must
have its heading and several numbered entries, as that of a second volume has.
Costs: next to nothing.

Footnotes of plain-text books: the notes go, and so do their marks in the text.

    ... a remarkable beast.[1]      the mark goes
    [1] Vulture.                    a paragraph that begins with a mark which is before it goes
    FOOTNOTES:                      such a heading goes, and near the book's end all that follows it

Promises: pure functions on a book's paragraphs. A paragraph goes only if its mark is referred to in one of
the `MAX_NOTE_DISTANCE` before it, or under a heading of notes near the end; a mark goes only if there are such notes,
but for a letter in brackets after a word, `[A]`, which is a mark anywhere.
Costs: about 100 MB a second.
"""

import re
from collections.abc import Sequence

# ruff: noqa: RUF001 - typographic quotes are the subject here


MAX_CATALOGUE_SHARE = 0.15
MIN_SIGNS = 2
MAX_SIGN_GAP = 15  # paragraphs between two signs of one catalogue
MAX_HEADINGS = 4  # short paragraphs before the first sign that are the catalogue's own
MAX_HEADING_CHARACTERS = 80  # characters

END = re.compile(r"\W*(?:the end|finis|end|the end of .{1,60})\W*", re.I)
PRINTER = re.compile(r"^\W*(?:printed|made and printed|print(?:ed)? and bound)[ ](?:by|in|at)\b", re.I)
SIGN = re.compile(
    r"""\b(?:12mo|8vo|16mo|crown[ ]8vo)\b | \bcloth[ ](?:decorative|extra|gilt|boards|binding|bound)\b | \bpost-?paid\b
      | \bper[ ]vol(?:ume|\.) | \beach[ ](?:one[ ])?vol(?:ume|\.) | \bprice,?[ ]+(?:[$£]|\d|net) | [$£][ ]?\d+\.\d\d\b
      | \b\d+s\.[ ](?:\d+d\.|net) | \bwherever[ ]books[ ]are[ ]sold\b
      | \bask[ ](?:your[ ](?:dealer|bookseller)|for)\b.*\blist\b
      | \bcomplete[ ](?:free[ ])?(?:list|catalogue?)[ ]of\b | \bcomplete[ ]catalogue?\b | \bfree[ ]list[ ]of\b
      | \bpopular[ ]copyright | \bcopyrighted[ ]fiction | \bat[ ]moderate[ ]prices\b
      | \bbooks[ ](?:for[ ](?:boys|girls|young[ ]\w+)|by[ ]the[ ]same[ ]author) | ^\W*by[ ]the[ ]same[ ]author\W*$
      | \b(?:grosset[ ]&[ ]dunlap|a\.[ ]l\.[ ]burt|l\.[ ]?c\.[ ]page)\b
      | \bpublishers?['’]s?[ ](?:announcement|list|catalogue) | ^\W*(?:new|latest|recent)[ ](?:books|novels|fiction)\W*$
      | ^(?:\S.{2,60}\.[ ]By[ ][A-Z][^.]*(?:[A-Z]\.[^.]*)*\.(?:[ ]|$)){2}
    """,
    re.I | re.X | re.M,
)


def cut_catalogue(blocks: list[str]) -> list[str]:
    """Remove the advertisements after the end of a book from its paragraphs.

    >>> book = ["It was late. " * 90] * 2
    >>> cut_catalogue([*book, "THE END", "NEW FICTION", "The Moon. 12mo, cloth extra. $1.50"])[2:]
    ['THE END']
    """
    first = _find_first_allowed(blocks)
    ends = [index for index in range(first, len(blocks)) if END.fullmatch(blocks[index])]
    behind = blocks[ends[-1] + 1 :] if ends else []
    if behind and sum(bool(SIGN.search(block)) for block in behind) >= min(MIN_SIGNS, len(behind)):
        return blocks[: ends[-1] + 1]
    if behind and all(PRINTER.search(block) for block in behind):
        return blocks[: ends[-1] + 1]
    return blocks[: _find_catalogue_start(blocks, max(first, ends[-1] + 1) if ends else first)]


def _find_first_allowed(blocks: list[str]) -> int:
    """Return the index of the first paragraph that may be removed as part of a catalogue.

    From this index on, the paragraphs contain at most `MAX_CATALOGUE_SHARE` of the book's characters.
    """
    left = MAX_CATALOGUE_SHARE * sum(map(len, blocks))
    for index in range(len(blocks) - 1, -1, -1):
        left -= len(blocks[index])
        if left < 0:
            return index + 1
    return len(blocks)


def _find_catalogue_start(blocks: list[str], first: int) -> int:
    """Return the index of the first paragraph of a catalogue that continues to the end of the book.

    Return the number of paragraphs if there is no catalogue. Paragraphs before the index `first` are not considered.
    """
    signs = [len(blocks)]
    for index in range(len(blocks) - 1, first - 1, -1):
        if signs[-1] - index > MAX_SIGN_GAP:
            break
        if SIGN.search(blocks[index]):
            signs.append(index)
    if len(signs) <= MIN_SIGNS + 1:
        return len(blocks)
    begin = signs[-1]
    while begin > max(first, signs[-1] - MAX_HEADINGS) and _is_heading(blocks[begin - 1]):
        begin -= 1
    return begin


def _is_heading(block: str) -> bool:
    """Return True if a paragraph is short and does not end like a sentence."""
    return len(block) < MAX_HEADING_CHARACTERS and block[-1:] not in ".!?\"'”’"


# ruff: noqa: RUF001 - typographic quotes are the subject here


CONTENTS_BLOCKS = 100
MAX_ENTRIES = 400
LAST_HEADINGS = 8  # paragraphs before the first prose among which the first chapter's heading is looked for
PROSE_WORDS = 15
MAX_PAGE_CHARACTERS = 60  # characters of a page's number and the dots before it
MAX_LINE_CHARACTERS = 120  # characters of a line of an entry
MAX_CAPTION_CHARACTERS = 300  # characters of an entry of a list of illustrations
MIN_ENTRIES = 3  # of a list without a heading, or whose first chapter's heading was not found
MAX_REPEAT_DISTANCE = 12  # paragraphs after a list without a heading, in which its first entry must come again
MIN_NAME_LETTERS = 8  # letters of a name that is within an entry

CONTENTS = re.compile(r"\W*(?:(?:a )?table of )?contents\W*|\W*(?:list of )?(?:the )?illustrations\W*", re.I)
ILLUSTRATIONS = re.compile(r"\W*(?:list of )?(?:the )?illustrations\W*", re.I)
NUMBERED = re.compile(
    r"\W*(?:(?:chapter|chap|book|part|letter|volume|section|act|canto)\b[ .]*)?(?:\d{1,3}|[ivxlc]+)\b[\W_]*", re.I
)
ENTRY = re.compile(r"\W*(?:(?i:chapter|book|part|letter|volume)\b[ .]*)?(?:\d{1,3}|[IVXLC]+)[.):]")
ORDINAL = re.compile(r"\W*(?:(?:chapter|book|part|letter|volume|stave|canto)\b.{0,12}|[ivxlc]+|\d{1,3})\W*", re.I)
FIRST = re.compile(
    r"\W*(?:prologue|preface|(?:the )?introduction|(?:chapter|book|part|letter|volume|stave|canto)[ .]*(?:the )?"
    r"(?:1|I|one|first)|[1I])\b(?:[.:—-].*)?\W*",
    re.I,
)
KIND = re.compile(r"[^\W\d_]+")
LETTERS = re.compile(r"[\W_]+")
PAGED = re.compile(r"[\s.·_-]+(?:\d{1,4}|[ivxlc]+)\W*\Z", re.I)
ENDS_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)\]]*(?=\s|\Z)")


def cut_contents(blocks: list[str]) -> list[str]:
    """Remove tables of contents and lists of illustrations from a book's paragraphs.

    >>> cut_contents(["Emma", "CONTENTS", "I. The Walk 3", "II. The Ball 9", "I", "The Walk", "She went. " * 20])[:3]
    ['Emma', 'I', 'The Walk']
    """
    kept, index = [], 0
    first_named = _index_names(blocks)
    while index < len(blocks):
        find_stop = _find_contents_stop if index < CONTENTS_BLOCKS else _find_late_stop
        stop = find_stop(blocks, index, first_named)
        if stop == index:
            kept.append(blocks[index])
        index = max(stop, index + 1)
    return kept


def _index_names(blocks: list[str]) -> dict[str, int]:
    """Map each name to the index of the first paragraph that has it as a line.

    A name is a line without leading numbers and page numbers, reduced to lower-case letters. Return {} if the book has
    no list of illustrations.
    """
    first: dict[str, int] = {}
    if any(ILLUSTRATIONS.fullmatch(block.partition("\n")[0]) for block in blocks):
        for index, block in enumerate(blocks):
            for name in _read_names(block):
                first.setdefault(name, index)
    return first


def _find_late_stop(blocks: list[str], start: int, first_named: dict[str, int]) -> int:
    """Return the index after a later volume's table of contents, or `start` if none begins there.

    The table must have a heading and several entries. `first_named` maps names to paragraphs (see `_index_names`).
    """
    if not CONTENTS.fullmatch(blocks[start].partition("\n")[0]):
        return start
    stop = _find_contents_stop(blocks, start, first_named)
    return stop if sum(map(_is_list, blocks[start + 1 : stop])) >= MIN_ENTRIES else start


def _find_contents_stop(blocks: list[str], start: int, first_named: dict[str, int]) -> int:
    """Return the index after the contents or other list that begins at `start`.

    Return `start` if no list begins there, or if its end is unclear. `first_named` maps names to paragraphs (see
    `_index_names`).
    """
    heading, _, rest = blocks[start].partition("\n")
    if not CONTENTS.fullmatch(heading):
        return _find_unheaded_stop(blocks, start)
    first = start + (1 if rest else 2)
    last = _find_next_list(blocks, start)
    if ILLUSTRATIONS.fullmatch(heading):
        return _find_captions_stop(blocks, start, last, first_named)
    prose = next((index for index in range(first, last) if is_prose(blocks[index])), 0)
    named = [
        index
        for index in range(max(first, prose - LAST_HEADINGS), prose)
        if not _is_paged(blocks[index]) and _is_named(blocks, index, _read_names(*blocks[start:index]))
    ]
    if named:
        return _find_first_heading(blocks, named)
    return _find_listed_stop(blocks, start, prose or last, bool(rest))


def _find_next_list(blocks: list[str], start: int) -> int:
    """Return the index of the first list heading after `start`, where a list begins.

    If there is none, return the maximum index that the list can reach.
    """
    end = min(start + MAX_ENTRIES, len(blocks))
    headed = (index for index in range(start + 1, end) if CONTENTS.fullmatch(blocks[index].partition("\n")[0]))
    return next(headed, end)


def _find_listed_stop(blocks: list[str], start: int, end: int, has_rest: bool) -> int:
    """Return the index after a list's last numbered entry, or `start` if the end of the list is unclear.

    Args:
        blocks: The paragraphs.
        start: Index of the list's heading.
        end: Index before which the list must end.
        has_rest: True if the heading's paragraph also contains entries.
    """
    listed = [index for index in range(start + 1, end) if _is_list(blocks[index])]
    again = [index for index in listed[1:] if _read_names(blocks[index]) & _read_names(blocks[listed[0]])]
    listed = [index for index in listed if not again or index < again[-1]]
    if len(listed) > 1 and FIRST.fullmatch(blocks[listed[-1]]):
        listed.pop()  # a heading of the text, where numbers begin again
    if not listed or (len(listed) < MIN_ENTRIES and not has_rest and listed[0] > start + 1):
        return start + 1 if has_rest else start
    return listed[-1] + 1 if 2 * len(listed) >= listed[-1] - start else start


def _find_captions_stop(blocks: list[str], start: int, last: int, first_named: dict[str, int]) -> int:
    """Return the index after a list of illustrations: where earlier text is repeated or a first chapter begins.

    Args:
        blocks: The paragraphs.
        start: Index of the list's heading.
        last: Maximum index that the list can reach.
        first_named: The first paragraph with each name, as returned by `_index_names`.

    Returns:
        The index; `start` if the list's end is unclear.
    """
    listed = _read_names(blocks[start])
    for index in range(start + 1, min(last + 1, len(blocks))):
        block = blocks[index]
        heading, paged = block.partition("\n")[0], _is_paged(block)
        names = _read_names(block)
        repeats = any(first_named[name] < start for name in names)
        if CONTENTS.fullmatch(heading) or (not paged and (FIRST.fullmatch(heading) or repeats)):
            return index
        if not paged and index > start + 2 and _is_named(blocks, index, listed):
            return index
        listed |= names
        if len(block) > MAX_CAPTION_CHARACTERS and not paged:
            break
    stop = start + 1
    while stop < last and (_is_list(blocks[stop]) or _is_paged(blocks[stop])):
        stop += 1
    return stop if stop > start + 1 else start


def _find_unheaded_stop(blocks: list[str], start: int) -> int:
    """Return the index after a list of numbered entries without a heading, if its first entry is repeated below.

    Otherwise return `start`.
    """
    stop = start
    while stop < min(start + MAX_ENTRIES, len(blocks)) and _is_entry(blocks[stop]):
        stop += 1
    entries = sum(block.count("\n") + 1 for block in blocks[start:stop])
    if entries < MIN_ENTRIES:
        return start
    names = _read_names(blocks[start].partition("\n")[0])
    after = range(stop, min(stop + MAX_REPEAT_DISTANCE, len(blocks) - 1))
    again = any(_read_names(blocks[index].partition("\n")[0]) == names for index in after)
    return stop if again else start


def _is_entry(block: str) -> bool:
    """Return True if all lines of a paragraph are short, begin with a number and do not end like a sentence."""
    lines = block.split("\n")
    short = max(map(len, lines)) < MAX_LINE_CHARACTERS
    return short and all(NUMBERED.match(line) and not ENDS_SENTENCE.search(line[-2:]) for line in lines)


def _is_named(blocks: list[str], index: int, listed: set[str]) -> bool:
    """Return True if the paragraph at `index`, alone or together with the next one, is a name in a list.

    `listed` contains the list's names, reduced to lower-case letters.
    """
    own = _read_names(blocks[index])
    if 2 * len(own & listed) >= len(own):
        return True
    both = "".join(LETTERS.sub("", block).lower() for block in blocks[index : index + 2])
    [name, *more] = own or {""}
    return both in listed or (not more and len(name) >= MIN_NAME_LETTERS and any(name in entry for entry in listed))


def _find_first_heading(blocks: list[str], named: list[int]) -> int:
    """Return the index of the first in a run of consecutive headings that ends with the last index in `named`.

    Besides the headings in `named`, a number before a name and a part's number before a chapter's number belong to the
    run.
    """
    first = named[-1]
    while first - 1 in named or (
        ORDINAL.fullmatch(blocks[first - 1]) and _can_precede(blocks[first - 1], blocks[first])
    ):
        first -= 1
    return first


def _can_precede(ordinal: str, heading: str) -> bool:
    """Return True if a numbered heading can be directly before another heading.

    "PART I" can be before "CHAPTER I" or a name, but not before "PART II".
    """
    if not ORDINAL.fullmatch(heading):
        return True
    kinds = [word[0].lower() if (word := KIND.match(text)) else "" for text in (ordinal, heading)]
    return kinds[0] in ("part", "book", "volume") and kinds[0] != kinds[1]


def _read_names(*blocks: str) -> set[str]:
    """Return the set of names in the lines of the given paragraphs, without leading numbers and page numbers.

    A name is reduced to lower-case letters.
    """
    names = set()
    for line in "\n".join(blocks).split("\n"):
        name = (
            line
            if ORDINAL.fullmatch(line)
            else line[:-MAX_PAGE_CHARACTERS] + PAGED.sub("", line[-MAX_PAGE_CHARACTERS:])
        )
        number = NUMBERED.match(name)
        bare = LETTERS.sub("", name[number.end() :] if number else name).lower()
        names.add(bare if len(bare) > 2 else LETTERS.sub("", name).lower())
    return names - {""}


def _is_list(block: str) -> bool:
    """Return True if a paragraph looks like entries of a list and does not end like a sentence.

    Its first line must begin with a number, or half of its lines must begin with a number or end with a page number.
    """
    lines = block.split("\n")
    listed = sum(bool(NUMBERED.match(line) or PAGED.search(line[-MAX_PAGE_CHARACTERS:])) for line in lines)
    begins = bool(NUMBERED.match(lines[0])) and max(map(len, lines)) < MAX_LINE_CHARACTERS
    return (begins or 2 * listed >= len(lines)) and not ENDS_SENTENCE.search(block[-4:])


def _is_paged(block: str) -> bool:
    """Return True if a paragraph ends with a page number and contains other text, too."""
    return bool(PAGED.search(block[-MAX_PAGE_CHARACTERS:])) and not ORDINAL.fullmatch(block)


def is_prose(block: str) -> bool:
    """Return True if a paragraph is clearly running text.

    The paragraph must be a single line with more than `PROSE_WORDS` words and a sentence end. It must not start with a
    number, and at least a third of its first words must not be capitalized.
    """
    words = block.split(None, PROSE_WORDS)
    if "\n" in block or len(words) <= PROSE_WORDS or ENTRY.match(block):
        return False
    small = sum(word[0].islower() for word in words)
    return 3 * small >= len(words) and bool(ENDS_SENTENCE.search(block[-4:]))


# ruff: noqa: RUF001 - typographic quotes are the subject here


FRONT_SHARE = 0.03
FRONT_CHARACTERS = 3_000
BACK_SHARE = 0.05
BACK_CHARACTERS = 3_000
MAX_NOTICE_CHARACTERS = 1_500  # characters of a license note

LICENCE = re.compile(
    r"""
    \bSmashwords\b | \bLicen[sc]e[ ]Notes?\b | \blicensed[ ]for[ ]your[ ]personal[ ](?:enjoyment|use)
  | may[ ]not[ ]be[ ]re-?sold[ ]or[ ]given[ ]away | share[ ]this[ ](?:e-?)?book[ ]with[ ]another
  | purchase[ ](?:your[ ]own|an[ ]additional)[ ]copy | purchased[ ]for[ ]your[ ]use[ ]only
  | respecting[ ]the[ ](?:hard[ ])?work[ ]of[ ]this[ ]author | \ball[ ]rights[ ]reserved\b
  | ^\W*(?:text[ ]|cover[ ])?copyright\W{0,4}(?:\(c\)|©|by|in|\d{4}) | ^\W*(?:©|\(c\))\W?[ ]?(?:\w+[ ]){0,6}\d{4}
  | no[ ]part[ ]of[ ]this[ ](?:\w+[ ])?(?:e-?book|book|publication|work|story)[ ]may[ ]be
  | ^\W*This[ ](?:e-?book|book|novel|story|novella)?[ ]?is[ ]a[ ]work[ ]of[ ]fiction\b
  | any[ ]resemblance[ ]to[ ](?:actual|real|any)?[ ]?(?:persons|people|events) | \bISBN(?:-1[03])?\b[ :#]*[\dX-]
    """,
    re.I | re.X,
)
IMPRINT = re.compile(
    r"""^\W*(?: Published[ ](?:by|in|at)\b | Cover[ ](?:art|design|image|photo|illustration|by)
      | Edited[ ]by\b | Formatt(?:ed|ing)[ ]by\b | Discover[ ]other[ ]titles | Also[ ]by\b | Ebook[ ]formatting
      | (?:First|Second|Third|Ebook|Kindle|Electronic)[ ]Edition | (?:https?://|www\.)\S+$
      | (?:Made[ ]and[ ])?Printed[ ](?:in|by|at)\b | Made[ ]in[ ](?:the[ ])?(?:U\.?S|Great[ ]Britain|England)
      | Manufactured[ ]in[ ]the[ ]United[ ]States | Library[ ]of[ ]Congress | Standard[ ]Book[ ]Number
      | (?:First|Original(?:ly)?|Re-?)[ ]?(?:published|printed)\b | Published,?[ ](?:\w+,?[ ])?\d{4}
      | (?:\w+[ -])?(?:\w+th|first|second|third)[ ](?:Impression|Printing|Edition|Thousand)\b
      | \d+(?:th|st|nd|rd)[ ]Thousand
      | (?:This|The)[ ](?:new[ ])?\w*[ ]?edition[, ].*\bpublished\b )""",
    re.I | re.X,
)
BACK = re.compile(
    r"""^[^\w"'“‘]*(?:
        About[ ](?:the|this)[ ]authors?\b
      | (?:Connect|Contact|(?:Stay|Keep)[ ]in[ ]touch)[ ](?:with[ ])?(?:me|us|the[ ]author|(?-i:[A-Z]\w+[ ][A-Z]\w+))\b
      | Thank[ ]?you(?:[ ](?:so|very)[ ]much)?[ ]for[ ](?:reading|purchasing|buying|downloading)[ ]
        (?:my|this|our|the)[ ](?:\w+[ ]){0,3}(?:e-?book|book|novel|novella|story|stories)
      | If[ ]you[ ](?:have[ ])?(?:enjoyed|liked|loved)[ ](?:reading[ ])?(?:this|my)[ ](?:e-?book|book|novel|story)
      | (?:Other|More)[ ](?:books|titles|works|novels|stories)[ ](?:by|from)\b | Discover[ ]other[ ]titles
      | Also[ ]by[ ] | (?:Visit|Find|Follow|Friend)[ ](?:me|us)[ ](?:at|on)\b
    )""",
    re.I | re.X,
)
WEB = re.compile(r"https?://|www\.|\S@\S+\.\w|\bSmashwords\b|\b(?:Twitter|Facebook|Goodreads|my blog|website)\b", re.I)
SIGNS = "{}[]<>=_|\\/*#@$%^&~+;()"  # program text has about one to a word, novels one to sixty
WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]+|\d+")


def cut_matter(blocks: list[str]) -> list[str]:
    """Remove the copyright page, the table of contents, and the pages about the author from a book's paragraphs."""
    return cut_contents(cut_front(cut_back(blocks)))


def cut_front(blocks: list[str]) -> list[str]:
    """Remove the license, copyright and imprint from the paragraphs near the beginning of a book.

    >>> cut_front(["Sky", "Copyright 2012 Ann Lee", "Smashwords Edition", "It was late. " * 300])[:2][0]
    'Sky'
    """
    bound = FRONT_CHARACTERS + FRONT_SHARE * sum(map(len, blocks))
    kept, passed = [], 0
    for block in blocks:
        passed += len(block)
        if passed > bound or not _is_front(block):
            kept.append(block)
    return kept


def _is_front(block: str) -> bool:
    """Return True if a paragraph is a license, copyright or imprint note."""
    line = " ".join(block.split()) if len(block) < MAX_NOTICE_CHARACTERS else ""
    return bool(LICENCE.search(line) or (len(line) < 200 and IMPRINT.search(line)))


def cut_back(blocks: list[str]) -> list[str]:
    """Remove the paragraphs from "About the author", "Connect with me" or the like to the end of a book."""
    total, after, cut = sum(map(len, blocks)), 0, len(blocks)
    bound = min(BACK_CHARACTERS + BACK_SHARE * total, total / 2)
    for index in range(len(blocks) - 1, 0, -1):
        after += len(blocks[index])
        if after > bound:
            break
        line = " ".join(blocks[index].split())
        if (BACK.search(line) and (len(line) < 80 or WEB.search(line))) or _is_plea(line):
            cut = index
    return blocks[:cut]


def _is_plea(line: str) -> bool:
    """Return True if a paragraph, joined to one line, thanks the reader or asks for a review.

    Quoted requests are ignored, because characters in a novel make them.
    """
    return bool(BACK.search(line)) and re.match(r"\W*(?:Thank|If)", line, re.I) is not None


def count_prose_words(blocks: Sequence[str], max_count: int) -> int:
    """Count the words of running text in paragraphs, stopping once `max_count` is reached.

    A paragraph is running text if it has at least eight words and a sentence end. Most of its words must not be
    capitalized (unlike in lists, tables, titles and indexes), and it must have few symbols and numbers (unlike
    programs).
    """
    total = 0
    for block in blocks:
        words = WORD.findall(block)
        plain = sum(not (word[0].isupper() or word[0].isdigit()) for word in words)
        few_signs = 4 * sum(map(block.count, SIGNS)) < len(words) and 5 * sum(map(str.isdigit, words)) < len(words)
        if len(words) >= 8 and 2 * plain >= len(words) and few_signs and ENDS_SENTENCE.search(block):
            total += len(words)
            if total >= max_count:
                break
    return total


# ruff: noqa: RUF001 - typographic quotes are the subject here


MAX_NOTE_DISTANCE = 80  # paragraphs
NOTES_SHARE = 0.1  # of the book, in which notes gathered at its end may be
MAX_NOTE_CHARACTERS = 3_000  # characters
HEADING = re.compile(r"\W*(?:foot|end)notes?\W*", re.I)
MARKED = re.compile(r"[\[{*†‡]")
NOTE = re.compile(r"(?P<mark>\[(?:\d{1,3}|[A-Z])\]|\{\d{1,3}[a-z]?\}|[*†‡](?=[^*]))[ ]*(?=\S)")
REFERENCE = re.compile(
    r"(?<=[\w.,;:!?\"'”’)—-])(?:\[(?:\d{1,3}|[A-Z])\]|\{\d{1,3}[a-z]?\})|(?<=[a-z.,;:!?\"'”’)])[*†‡](?![*†‡\w])"
)


def cut_footnotes(blocks: list[str]) -> list[str]:
    """Remove footnotes and references to them from a book's paragraphs.

    >>> cut_footnotes(["The aasvögel[1] flew.", "[1] Vulture.", "It was late."])
    ['The aasvögel flew.', 'It was late.']
    """
    kept = blocks[: _find_notes_start(blocks)]
    if not any(MARKED.search(block) or HEADING.fullmatch(block) for block in kept):
        return kept
    notes = _find_notes(kept)
    marks = {*notes.values(), *(["[]"] if len(kept) < len(blocks) else [])}
    text = [block for index, block in enumerate(kept) if index not in notes and not HEADING.fullmatch(block)]
    return [_without_marks(block, marks) if MARKED.search(block) else block for block in text]


def _find_notes(blocks: list[str]) -> dict[int, str]:
    """Find the footnotes among a book's paragraphs. Return the reference mark of each footnote, by paragraph index.

    A footnote begins with a mark that is used in an earlier paragraph.
    """
    seen: dict[str, int] = {}  # mark: the last paragraph that refers to it
    notes = {}
    for index, block in enumerate(blocks):
        if not MARKED.search(block):
            continue
        note = NOTE.match(block) if len(block) < MAX_NOTE_CHARACTERS else None
        if note and index - seen.get(note["mark"], -MAX_NOTE_DISTANCE - 1) <= MAX_NOTE_DISTANCE:
            notes[index] = note["mark"]
        else:
            seen.update(dict.fromkeys(REFERENCE.findall(block), index))
    return notes


def _without_marks(block: str, marks: set[str]) -> str:
    """Remove the references to the footnotes with the given marks from a paragraph."""
    return REFERENCE.sub(lambda match: "" if _is_mark(match[0], marks) else match[0], block)


def _is_mark(mark: str, marks: set[str]) -> bool:
    """Return True if a mark such as "[1]" or "*" refers to a footnote.

    Args:
        mark: The mark.
        marks: The marks of the footnotes that were found; "[]" stands for all marks in brackets. A letter in brackets
            always refers to a footnote.
    """
    return mark in marks or mark[1:2].isupper() or ("[]" in marks and mark[0] in "[{")


def _find_notes_start(blocks: list[str]) -> int:
    """Return the index of the first footnote in the list of footnotes at the end of a book.

    Return the number of paragraphs if there is no such list.
    """
    left = NOTES_SHARE * sum(map(len, blocks))
    for index in range(len(blocks) - 1, 0, -1):
        if HEADING.fullmatch(blocks[index]):
            return index
        left -= len(blocks[index])
        if left < 0:
            break
    return len(blocks)
