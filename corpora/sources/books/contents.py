"""Lists of contents and of illustrations at the beginning of a book, headed or not, and where they end.

    CONTENTS                      a list goes from its heading ...
    I. The Walk 3
    II. The Ball 9
    CHAPTER I                     ... to the first heading that it names, or to its last numbered entry

Promises: pure functions on a book's paragraphs. A list ends before the prose that follows it, and after
`MOST_ENTRIES` at the latest; where its end is not clear it stays. Beyond the first `CONTENTS_BLOCKS` a list must
have its heading and several numbered entries, as that of a second volume has.
Costs: next to nothing.
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re

CONTENTS_BLOCKS = 100
MOST_ENTRIES = 400
LAST_HEADINGS = 8  # paragraphs before the first prose among which the first chapter's heading is looked for
PROSE_WORDS = 15
MOST_PAGE = 60  # characters of a page's number and the dots before it
MOST_LINE = 120  # characters of a line of an entry
MOST_CAPTION = 300  # characters of an entry of a list of illustrations
LEAST_ENTRIES = 3  # of a list without a heading, or whose first chapter's heading was not found
REPEATED_WITHIN = 12  # paragraphs after a list without a heading, in which its first entry must come again
LEAST_NAME = 8  # letters of a name that is within an entry

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
    """Paragraphs without tables of contents and lists of illustrations at the beginning.

    >>> cut_contents(["Emma", "CONTENTS", "I. The Walk 3", "II. The Ball 9", "I", "The Walk", "She went. " * 20])[:3]
    ['Emma', 'I', 'The Walk']
    """
    kept, index = [], 0
    first_named = _first_named(blocks)
    while index < len(blocks):
        find_stop = _contents_stop if index < CONTENTS_BLOCKS else _late_stop
        stop = find_stop(blocks, index, first_named)
        if stop == index:
            kept.append(blocks[index])
        index = max(stop, index + 1)
    return kept


def _first_named(blocks: list[str]) -> dict[str, int]:
    """The first paragraph that has a line of each name; nothing where no list of illustrations asks for it."""
    first: dict[str, int] = {}
    if any(ILLUSTRATIONS.fullmatch(block.partition("\n")[0]) for block in blocks):
        for index, block in enumerate(blocks):
            for name in _names(block):
                first.setdefault(name, index)
    return first


def _late_stop(blocks: list[str], start: int, first_named: dict[str, int]) -> int:
    """Return where the contents of a later volume stop: they have a heading and several numbered entries."""
    if not CONTENTS.fullmatch(blocks[start].partition("\n")[0]):
        return start
    stop = _contents_stop(blocks, start, first_named)
    return stop if sum(map(_is_list, blocks[start + 1 : stop])) >= LEAST_ENTRIES else start


def _contents_stop(blocks: list[str], start: int, first_named: dict[str, int]) -> int:
    """Return where the list that begins here stops; `start` if none does, or if its end is not clear."""
    heading, _, rest = blocks[start].partition("\n")
    if not CONTENTS.fullmatch(heading):
        return _unheaded_stop(blocks, start)
    first = start + (1 if rest else 2)
    last = _next_list(blocks, start)
    if ILLUSTRATIONS.fullmatch(heading):
        return _captions_stop(blocks, start, last, first_named)
    prose = next((index for index in range(first, last) if is_prose(blocks[index])), 0)
    named = [
        index
        for index in range(max(first, prose - LAST_HEADINGS), prose)
        if not _is_paged(blocks[index]) and _is_named(blocks, index, _names(*blocks[start:index]))
    ]
    if named:
        return _first_heading(blocks, named)
    return _listed_stop(blocks, start, prose or last, bool(rest))


def _next_list(blocks: list[str], start: int) -> int:
    """The next heading of such a list, or as far as a list may go."""
    end = min(start + MOST_ENTRIES, len(blocks))
    headed = (index for index in range(start + 1, end) if CONTENTS.fullmatch(blocks[index].partition("\n")[0]))
    return next(headed, end)


def _listed_stop(blocks: list[str], start: int, end: int, has_rest: bool) -> int:
    """The place after the last entry that is numbered or paged, where there are some and none begins again."""
    listed = [index for index in range(start + 1, end) if _is_list(blocks[index])]
    again = [index for index in listed[1:] if _names(blocks[index]) & _names(blocks[listed[0]])]
    listed = [index for index in listed if not again or index < again[-1]]
    if len(listed) > 1 and FIRST.fullmatch(blocks[listed[-1]]):
        listed.pop()  # a heading of the text, where numbers begin again
    if not listed or (len(listed) < LEAST_ENTRIES and not has_rest and listed[0] > start + 1):
        return start + 1 if has_rest else start
    return listed[-1] + 1 if 2 * len(listed) >= listed[-1] - start else start


def _captions_stop(blocks: list[str], start: int, last: int, first_named: dict[str, int]) -> int:
    """The first paragraph after a list of illustrations: a repeat of earlier text, or a first heading."""
    listed = _names(blocks[start])
    for index in range(start + 1, min(last + 1, len(blocks))):
        block = blocks[index]
        heading, paged = block.partition("\n")[0], _is_paged(block)
        names = _names(block)
        repeats = any(first_named[name] < start for name in names)
        if CONTENTS.fullmatch(heading) or (not paged and (FIRST.fullmatch(heading) or repeats)):
            return index
        if not paged and index > start + 2 and _is_named(blocks, index, listed):
            return index
        listed |= names
        if len(block) > MOST_CAPTION and not paged:
            break
    stop = start + 1
    while stop < last and (_is_list(blocks[stop]) or _is_paged(blocks[stop])):
        stop += 1
    return stop if stop > start + 1 else start


def _unheaded_stop(blocks: list[str], start: int) -> int:
    """Return where a run of numbered entries stops that has no heading, but whose first entry soon comes again."""
    stop = start
    while stop < min(start + MOST_ENTRIES, len(blocks)) and _is_entry(blocks[stop]):
        stop += 1
    entries = sum(block.count("\n") + 1 for block in blocks[start:stop])
    if entries < LEAST_ENTRIES:
        return start
    names = _names(blocks[start].partition("\n")[0])
    after = range(stop, min(stop + REPEATED_WITHIN, len(blocks) - 1))
    again = any(_names(blocks[index].partition("\n")[0]) == names for index in after)
    return stop if again else start


def _is_entry(block: str) -> bool:
    lines = block.split("\n")
    short = max(map(len, lines)) < MOST_LINE
    return short and all(NUMBERED.match(line) and not ENDS_SENTENCE.search(line[-2:]) for line in lines)


def _is_named(blocks: list[str], index: int, listed: set[str]) -> bool:
    """Return True if the names in a list include this paragraph, or this one and the next together."""
    own = _names(blocks[index])
    if 2 * len(own & listed) >= len(own):
        return True
    both = "".join(LETTERS.sub("", block).lower() for block in blocks[index : index + 2])
    [name, *more] = own or {""}
    return both in listed or (not more and len(name) >= LEAST_NAME and any(name in entry for entry in listed))


def _first_heading(blocks: list[str], named: list[int]) -> int:
    """The first of the headings that end with the last named one: named too, or a number before a name, or the
    number of a part before that of a chapter.
    """
    first = named[-1]
    while first - 1 in named or (
        ORDINAL.fullmatch(blocks[first - 1]) and _goes_before(blocks[first - 1], blocks[first])
    ):
        first -= 1
    return first


def _goes_before(ordinal: str, heading: str) -> bool:
    if not ORDINAL.fullmatch(heading):
        return True
    kinds = [word[0].lower() if (word := KIND.match(text)) else "" for text in (ordinal, heading)]
    return kinds[0] in ("part", "book", "volume") and kinds[0] != kinds[1]


def _names(*blocks: str) -> set[str]:
    """Return what the lines of these paragraphs name, without leading numbers and page numbers."""
    names = set()
    for line in "\n".join(blocks).split("\n"):
        name = line if ORDINAL.fullmatch(line) else line[:-MOST_PAGE] + PAGED.sub("", line[-MOST_PAGE:])
        number = NUMBERED.match(name)
        bare = LETTERS.sub("", name[number.end() :] if number else name).lower()
        names.add(bare if len(bare) > 2 else LETTERS.sub("", name).lower())
    return names - {""}


def _is_list(block: str) -> bool:
    lines = block.split("\n")
    listed = sum(bool(NUMBERED.match(line) or PAGED.search(line[-MOST_PAGE:])) for line in lines)
    begins = bool(NUMBERED.match(lines[0])) and max(map(len, lines)) < MOST_LINE
    return (begins or 2 * listed >= len(lines)) and not ENDS_SENTENCE.search(block[-4:])


def _is_paged(block: str) -> bool:
    """Return True if a paragraph ends with a page number and is more than that."""
    return bool(PAGED.search(block[-MOST_PAGE:])) and not ORDINAL.fullmatch(block)


def is_prose(block: str) -> bool:
    """Return True if a paragraph is certainly running text: one line, many words, most of them without a capital, a
    sentence that ends, no number before.
    """
    words = block.split(None, PROSE_WORDS)
    if "\n" in block or len(words) <= PROSE_WORDS or ENTRY.match(block):
        return False
    small = sum(word[0].islower() for word in words)
    return 3 * small >= len(words) and bool(ENDS_SENTENCE.search(block[-4:]))
