"""Marks that the markup around a text gives it: marks of elements, by tag, class, id, role and itemprop.

Promises: a pure function of a tag and its attributes as they are written. A mark is one bit; an element has those
of all the elements around it, except that an element which holds most of a page's prose keeps none that speaks
against prose: "sidebar-right" on `<body>` says nothing of the article.
Costs: 1 ms for a page with 700 elements and 42,000 characters of attributes.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import product

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.sources.web.main_text import mark_kernels as kernels
from corpora.sources.web.tree import ATTRIBUTE, Tree

# Of words in a class, an id or a data attribute that names a component: the mark, and how they are known.
WORDS = {
    "comment": r"comment|disqus|respond|\breply|discuss",
    "share": r"shar(?:e|ing)|social|follow|addthis|facebook|twitter|whatsapp|\btools?\b",
    "related": r"relat|recommend|read-?more|readnext|also|trend|popular|most-|teaser|promo|outbrain|taboola|latest|"
    r"recirc|next|suggest|further|verwandt|more-?(?:from|stor|news|on|link)|carousel|\bcards?\b|zergnet|partner|"
    r"link-?list|listing|headlines",
    "ad": r"(?<![a-z])ads?(?![a-z])|advert|sponsor|banner|dfp|werbung|anzeige|commercial|affiliate",
    "menu": r"(?<![a-z])nav|menu|breadcrumb|paginat|pager|toolbar|skip|ticker|drop-?down|tabs",
    "foot": r"foot(?!note|ball|age)|copyright|legal|imprint|disclaimer",
    "head": r"header|masthead|headline|title|intro-?head",
    "byline": r"byline|author|(?<![a-z])bio(?![a-z])|meta|(?<![a-z])dates?(?![a-z])|timestamp|publish|credit|dateline|"
    r"updated|info(?![a-z])|contributor|kicker|profile",
    "signup": r"newsletter|subscri|sign-?up|paywall|regist|log-?in|donat|member|cookie|consent|gdpr|modal|pop-?up|"
    r"overlay|lightbox|alert|promo-?box|piano|callout|(?<![a-z])cta(?![a-z])",
    "caption": r"caption|image|photo|galler|figure|media(?!wiki)|video|slide|thumb|player|picture|credit|copyright",
    "side": r"side-?bar|aside|widget|rail|right-?col|secondary|complementary|infobox|factbox|toc(?![a-z])|hatnote|"
    r"navbox|supplement",
    "tags": r"(?<![a-z])tags?(?![a-z])|tagged|topic|categor|keyword|label|hashtag",
    "unseen": r"(?<![a-z])hid(?:e|den)(?![a-z])|sr-only|screen-reader|visually-?hidden|print-only|noprint|no-print",
    "body": r"article_?-?(?:body|text|content|copy)|(?:entry|post|story|news|main|body|page)_?-?(?:content|body|text|"
    r"copy)|storytext|rich-?text|content_?-?body|wysiwyg|field-name-body|paywall|mw-parser-output|(?<![a-z])prose",
    "lead": r"(?<![a-z])lead(?![a-z])|stand-?first|abstract|strapline|vorspann|intro(?![a-z])",
    "under": r"subtitle|sub-?head|(?<![a-z])dek(?![a-z])|summary",
    "blurb": r"excerpt|description|teaser|blurb|snippet",
    "article": r"article|content|entry|post|story|main|text|paragraph",
    "quoted": r"pull-?quote|blockquote|twitter-tweet|instagram|embed",
}
TAGS = {
    "nav": "in nav",
    "menu": "in nav",
    "footer": "in footer",
    "aside": "in aside",
    "header": "in header",
    "figure": "in figure",
    "figcaption": "in figure",
    "form": "in form",
    "button": "in form",
    "label": "in form",
    "fieldset": "in form",
    "dialog": "in form",
    "table": "in table",
    "article": "in article",
    "main": "in main",
    "blockquote": "in quote",
    "ul": "in list",
    "ol": "in list",
    "dl": "in list",
    "address": "in address",
    "h1": "in h1",
}
ROLES = {"main": "in main", "article": "in article"} | dict.fromkeys(
    "navigation banner search menu menubar toolbar tablist dialog alert contentinfo complementary".split(), "role"
)
PROPERTIES = dict.fromkeys("articlebody reviewbody text".split(), "item body") | dict.fromkeys(
    "author datepublished caption image publisher comment".split(), "byline"
)
MARKS = (*WORDS, *dict.fromkeys(TAGS.values()), "item body", "role", "not shown")
BIT = {name: 1 << place for place, name in enumerate(MARKS)}
TAG_BITS = {tag: BIT[name] for tag, name in TAGS.items()}
NEUTRAL = sum(
    BIT[name]
    for name in (
        *"body article lead under quoted".split(),
        *("in article", "in main", "item body", "in table", "in list", "in quote"),
    )
)

PATTERNS = tuple((BIT[name], re.compile(pattern)) for name, pattern in WORDS.items())
ATTRIBUTES = frozenset(
    "class id role itemprop style hidden aria-hidden data-testid data-component data-component-name data-type data-qa "
    "data-role data-module data-block".split()
)
KINDS = {
    "class": kernels.CLASS, "role": kernels.OF_ROLE, "itemprop": kernels.OF_PROPERTY, "style": kernels.STYLE,
    "hidden": kernels.GIVEN, "aria-hidden": kernels.IF_TRUE,
}  # fmt: skip
STYLES = dict.fromkeys(("display", "visibility"), "not shown")  # perhaps
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
MOST = 0.5  # the share of a page's prose above which an element is not apparatus
# A pattern's alternatives, and of one: what must not be beside it, its letters, and what must not follow them.
ALTERNATIVE = re.compile(r"(?:[^|()]|\([^()]*\))+")
EDGES = re.compile(r"^(\(\?<!\[a-z\]\)|\\b)?(.*?)(\(\?!\[a-z\]\)|\\b)?(?:\(\?!([a-z|]+)\))?$")
LETTERS = re.compile(r"\(\?:([a-z|-]+)\)|([a-z_-]\??)")
NEXT_TO = {"": kernels.ANY, r"(?<![a-z])": kernels.NO_LETTER, r"(?![a-z])": kernels.NO_LETTER, r"\b": kernels.NO_WORD}


def marks_of(tree: Tree) -> tuple[Int64s, Int64s]:
    """(the marks of every element; a number that elements have in common which have one parent, tag and first class)"""
    if tree.marks is not None:
        return tree.marks
    own = np.array([TAG_BITS.get(name, 0) for name in tree.names])[tree.numbers]
    alike, unsure = (tree.parents * kernels.PRIME ^ tree.numbers) * kernels.PRIME, np.zeros(len(own), np.bool_)
    data, starts, stops = tree.written
    kernels.read_marks(np.frombuffer(data, np.uint8), starts, stops, word_table(), own, alike, unsure)
    for element in np.flatnonzero(unsure).tolist():
        own[element] = own_marks(tree.tag(element), tree.written.of(element))
    tree.marks = own, alike
    return tree.marks


@lru_cache(maxsize=1 << 12)
def own_marks(tag: str, attributes: str) -> int:
    """The marks that an element's tag and attributes give: the plain twin of `read_marks`.

    >>> own_marks("div", 'class="related-links a"') == BIT["related"]
    True
    """
    bits = TAG_BITS.get(tag, 0)
    for name, *values in ATTRIBUTE.findall(attributes):
        if (name := name.lower()) in ATTRIBUTES:
            bits |= _attribute_marks(name, "".join(values))
    return bits


def first_class(attributes: str) -> str:
    """The first of the classes that attributes give; "" where they give none."""
    values = ("".join(values).split() for name, *values in ATTRIBUTE.findall(attributes) if name.lower() == "class")
    return next((words[0] for words in values if words), "")


def _attribute_marks(name: str, value: str) -> int:
    """The marks that one attribute gives."""
    if name == "role":
        return BIT.get(ROLES.get(value.lower(), ""), 0)
    if name == "itemprop":
        return BIT.get(PROPERTIES.get(value.lower(), ""), 0)
    if name == "style":
        return BIT["not shown"] if NOT_SHOWN.search(value) else 0
    if name == "hidden" or name == "aria-hidden":
        return BIT["not shown"] if name == "hidden" or value == "true" else 0
    bits = 0
    for word in value.split():
        bits |= word_marks(word)
    return bits


@lru_cache(maxsize=1 << 14)
def word_marks(word: str) -> int:
    """The marks that a word of a class, an id or a component's name gives."""
    word = HUMP.sub("-", word).lower()
    return sum(bit for bit, pattern in PATTERNS if pattern.search(word))


@cache
def word_table() -> kernels.MarkTable:
    """What `read_marks` looks for."""
    after, gives, never = ([[0] * width for _ in range(kernels.IN_STYLE + 1)] for width in (kernels.NUM_CODES, 9, 1))

    def node_of(node: int, word: str) -> int:
        for code in kernels.CODES[[ord(letter) for letter in word]].tolist():
            if not after[node][code]:
                after[node][code] = len(after)
                for rows in (after, gives, never):
                    rows.append([0] * len(rows[0]))
            node = after[node][code]
        return node

    for mark, pattern in WORDS.items():
        for word, place, others in _words_of(pattern):
            gives[node_of(kernels.IN_WORD, word)][place] |= BIT[mark]
            for other in others:
                never[node_of(kernels.IN_WORD, word + other)][0] |= BIT[mark]
    for name in ATTRIBUTES:
        gives[node_of(kernels.NAME, name)][:2] = KINDS.get(name, kernels.WORDS), BIT["not shown"]
    for root, marks in ((kernels.ROLE, ROLES), (kernels.PROPERTY, PROPERTIES), (kernels.IN_STYLE, STYLES)):
        for word, mark in marks.items():
            gives[node_of(root, word)][0] = BIT[mark]
    given, not_given = np.array(gives, np.int64), np.array(never, np.int64)[:, 0].copy()
    return kernels.MarkTable(np.array(after, np.int16), given.any(1) | (not_given != 0), given, not_given)


def _words_of(pattern: str) -> Iterator[tuple[str, int, list[str]]]:
    """Every word that a pattern of `WORDS` finds: (the word, the column of `gives`, what must not follow it)."""
    for alternative in ALTERNATIVE.findall(pattern):
        match = EDGES.match(alternative)
        assert match is not None, alternative
        before, letters, behind, others = match.groups(default="")
        place = 3 * NEXT_TO[before] + NEXT_TO[behind]
        pieces = [one.split("|") if one else [letter[0], letter[1:] and ""][: len(letter)]
                  for one, letter in LETTERS.findall(letters)]  # fmt: skip
        for word in product(*pieces):
            yield "".join(word), place, others.split("|") if others else []


def carried_plain(
    parents: list[int], held: list[int], own: list[int], repeats: list[bool], most: float, neutral: int
) -> list[list[int]]:
    """The twin of `carry_down`: of each element what that has in its rows."""
    rows = [[0, 0, -1, -1, -1]]
    for at, parent in enumerate(parents[1:], 1):
        depth, around, *nearest = rows[parent]
        has = (own[at] & ~neutral, own[at] & neutral, repeats[at])
        around |= own[at] & neutral if held[at] > most else own[at]
        rows.append([depth + 1, around, *(at if one else other for one, other in zip(has, nearest, strict=True))])
    return rows
