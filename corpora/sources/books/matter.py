"""Removes what is around the text of any book: copyright pages, license notes, contents, "about the author".

Promises: pure functions on a book's paragraphs. What they cut is bounded: matter of the front goes paragraph by
paragraph, out of the first `FRONT_CHARACTERS` and `FRONT_SHARE` of the characters; matter of the back goes from its
heading to the end, if that is no more than `BACK_CHARACTERS` and `BACK_SHARE` of them, nor than half; contents go from
their heading to the first heading that they name.
Costs: next to nothing, except `prose_words`, which reads until it has seen enough.

Source: the Smashwords Style Guide (what its books must say at the front and may say at the back).
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re
from collections.abc import Sequence

from corpora.sources.books.contents import ENDS_SENTENCE, cut_contents

FRONT_SHARE = 0.03
FRONT_CHARACTERS = 3_000
BACK_SHARE = 0.05
BACK_CHARACTERS = 3_000
MOST_NOTICE = 1_500  # characters of a license note

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
    """A book's paragraphs without its copyright page, its contents, and what follows its end."""
    return cut_contents(cut_front(cut_back(blocks)))


def cut_front(blocks: list[str]) -> list[str]:
    """Paragraphs without license, copyright and imprint near the beginning.

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
    line = " ".join(block.split()) if len(block) < MOST_NOTICE else ""
    return bool(LICENCE.search(line) or (len(line) < 200 and IMPRINT.search(line)))


def cut_back(blocks: list[str]) -> list[str]:
    """Paragraphs up to "About the author", "Connect with me" and their like near the end."""
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
    """Return True if a paragraph thanks its reader or asks for a review; characters in a novel do so in quotes."""
    return bool(BACK.search(line)) and re.match(r"\W*(?:Thank|If)", line, re.I) is not None


def prose_words(blocks: Sequence[str], enough: int) -> int:
    """Words of running text: of paragraphs of eight words and more that hold a sentence's end and are mostly
    words without a capital, which lists, tables, titles and indexes are not, and hold few signs and numbers, which
    programs and indexes are full of. Counts no further than `enough`.
    """
    total = 0
    for block in blocks:
        words = WORD.findall(block)
        plain = sum(not (word[0].isupper() or word[0].isdigit()) for word in words)
        few_signs = 4 * sum(map(block.count, SIGNS)) < len(words) and 5 * sum(map(str.isdigit, words)) < len(words)
        if len(words) >= 8 and 2 * plain >= len(words) and few_signs and ENDS_SENTENCE.search(block):
            total += len(words)
            if total >= enough:
                break
    return total
