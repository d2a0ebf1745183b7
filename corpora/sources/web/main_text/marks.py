"""Marks that the markup around a text gives it: marks of elements, by tag, class, id, role and itemprop.

Promises: a pure function of a tag and its attributes as they are written. A mark is one bit; an element has those
of all the elements around it, except that an element which holds most of a page's prose keeps none that speaks
against prose: "sidebar-right" on `<body>` says nothing of the article.
Costs: 0.9 ms for a page of 160 kB; the words of class names are looked up in a bounded memory of what they said.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

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
NEUTRAL = sum(
    BIT[name]
    for name in (
        *"body article lead under quoted".split(),
        *("in article", "in main", "item body", "in table", "in list", "in quote"),
    )
)
AGAINST = ~NEUTRAL

PATTERNS = tuple((BIT[name], re.compile(pattern)) for name, pattern in WORDS.items())
ATTRIBUTES = frozenset(
    "class id role itemprop style hidden aria-hidden data-testid data-component data-component-name data-type data-qa "
    "data-role data-module data-block".split()
)
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
MOST = 0.5  # the share of a page's prose above which an element is not apparatus
BEGINNING = 3  # letters of a word by which the patterns that may be in it are looked up
ALTERNATIVES = re.compile(r"^(?:\(\?<!\[a-z\]\)|\\b)*(?:\(\?:([a-z|]+)\)|([a-z-]+)(\??))")


class Marks(NamedTuple):
    """Of every element: its own marks; these and those around it, without what most of the page's prose is in; the
    first of its classes."""

    own: list[int]
    around: list[int]
    classes: list[str]


def marks_of(tree: Tree, prose_sum: list[int]) -> Marks:
    """The marks of a page's elements. prose_sum: characters of prose before each block, and at the end of all."""
    most = MOST * prose_sum[-1]
    owns, around, classes = [0], [0], [""]
    for tag, attributes, parent, (first, last) in zip(
        tree.tags[1:], tree.attributes[1:], tree.parents[1:], tree.spans[1:], strict=True
    ):
        bits, named = own_marks(tag, attributes)
        owns.append(bits)
        classes.append(named)
        if bits & AGAINST and prose_sum[last] - prose_sum[first] > most:
            bits &= NEUTRAL
        around.append(around[parent] | bits)
    return Marks(owns, around, classes)


@lru_cache(maxsize=1 << 15)
def own_marks(tag: str, attributes: str) -> tuple[int, str]:
    """The marks that an element's tag and attributes give, and the first of its classes.

    >>> own_marks("div", 'class="related-links a"') == (BIT["related"], "related-links")
    True
    """
    bits, named = BIT.get(TAGS.get(tag, ""), 0), ""
    for name, *values in ATTRIBUTE.findall(attributes) if attributes else ():
        if (name := name.lower()) in ATTRIBUTES:
            value = "".join(values)
            bits |= _attribute_marks(name, value)
            if name == "class" and not named and value:
                named = value.split(maxsplit=1)[0] if not value.isspace() else ""
    return bits, named


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


@lru_cache(maxsize=1 << 16)
def word_marks(word: str) -> int:
    """The marks that a word of a class, an id or a component's name gives."""
    word = HUMP.sub("-", word).lower()
    marks_at = beginnings().get
    maybe = BIT["ad"] if "ad" in word else 0
    for at in range(len(word) - 2):
        maybe |= marks_at(word[at : at + BEGINNING], 0)
    return sum(bit for bit, pattern in PATTERNS if maybe & bit and pattern.search(word)) if maybe else 0


@cache
def beginnings() -> dict[str, int]:
    """The marks of patterns that may match where a word has these three letters: all but "ad", which has two."""
    marks: dict[str, int] = {}
    for name, pattern in WORDS.items():
        depth, starts = 0, [0]
        for at, character in enumerate(pattern):
            depth += (character == "(") - (character == ")")
            if character == "|" and not depth:
                starts.append(at + 1)
        for start in starts:
            match = ALTERNATIVES.match(pattern[start:])
            assert match is not None, pattern[start:]
            letters = match[1].split("|") if match[1] else [match[2][:-1] if match[3] else match[2]]
            for beginning in letters:
                key = beginning[:BEGINNING]
                marks[key] = marks.get(key, 0) | BIT[name]
    return marks
