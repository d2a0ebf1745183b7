"""The blocks of a page as rows of numbers: what each looks like, what is around it, and what the page is like.

Promises: a pure function of a page's table and its address. Every number is a count, a share of two counts, or stands
for a name, so it is the same on every machine. No number depends on the site: addresses are measured, not read. Costs:
0.9 to 1.2 ms for a page of 240,000 characters in 250 blocks, a fifth of it for marks.

A block is judged by
    its text           length, links, marks at its end, capitals, how it opens; a character as wide as two counts as two
    its markup         the names of its element and of those around it, and their marks, each with the share of the
                       page's text that carries it: what most of a page carries says little
    its elements       how much text, prose and links the five innermost around it hold, and how far it is from the
                       smallest that hold a third, most and nearly all of the page's prose
    its siblings       how many equal elements are next to those around it (cards, posts, rows), and how large they are
    its neighbors      the blocks before and after it, and the prose and links within 5, 15 and 40 blocks
    its page's data    whether JSON-LD, the description or the title say what it begins with
    its page           sizes, headings, lists, kinds of elements, what its data say it is

A mark is one bit that the markup gives an element, by its tag, class, id, role and itemprop: "comment", "in nav". An
element has the marks of all the elements around it, except that an element which holds most of a page's prose passes on
none that speaks against prose: "sidebar-right" on `<body>` says nothing about the article.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Float32s, Float64s, Int64s, UInt32s
from corpora.sources.web.facts import split_address
from corpora.sources.web.main_text import mark_kernels as kernels
from corpora.sources.web.main_text.mark_kernels import (
    HEAD_CHARACTERS,
    NUM_COUNTS,
    OPENING,
    WIDE_COUNT,
    carry_down,
    classify_characters,
    count_characters,
    find_possible_starts,
    list_openings,
)
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
VALUE_KINDS = {
    "class": kernels.CLASS, "role": kernels.ROLE_VALUE, "itemprop": kernels.PROPERTY_VALUE, "style": kernels.STYLE,
    "hidden": kernels.IS_GIVEN, "aria-hidden": kernels.IS_TRUE,
}  # fmt: skip
STYLES = dict.fromkeys(("display", "visibility"), "not shown")  # perhaps
CAMEL_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
MAX_PROSE_SHARE = 0.5  # the share of a page's prose above which an element is not apparatus
# A pattern's alternatives, and of one: what must not be beside it, its letters, and what must not follow them.
ALTERNATIVE = re.compile(r"(?:[^|()]|\([^()]*\))+")
EDGES = re.compile(r"^(\(\?<!\[a-z\]\)|\\b)?(.*?)(\(\?!\[a-z\]\)|\\b)?(?:\(\?!([a-z|]+)\))?$")
LETTERS = re.compile(r"\(\?:([a-z|-]+)\)|([a-z_-]\??)")
EDGE_KINDS = {
    "": kernels.ANY,
    r"(?<![a-z])": kernels.NO_LETTER,
    r"(?![a-z])": kernels.NO_LETTER,
    r"\b": kernels.NO_WORD,
}


def compute_marks(tree: Tree) -> tuple[Int64s, Int64s]:
    """Compute the marks of every element. A mark is a bit that tells the element's role, such as "comment" or "in nav".

    Marks are derived from the element's tag and attributes. `BIT` lists all of them.

    Returns:
        Two int64 arrays with one entry per element: the marks, and a digest that is equal for elements with the same
        parent, tag and first class. Both are cached in the tree.
    """
    if tree.marks is not None:
        return tree.marks
    own = np.array([TAG_BITS.get(name, 0) for name in tree.names])[tree.numbers]
    alike, unsure = (tree.parents * kernels.PRIME ^ tree.numbers) * kernels.PRIME, np.zeros(len(own), np.bool_)
    data, starts, stops = tree.written
    kernels.read_marks(np.frombuffer(data, np.uint8), starts, stops, build_word_table(), own, alike, unsure)
    for element in np.flatnonzero(unsure).tolist():
        own[element] = compute_own_marks(tree.get_tag(element), tree.written.read(element))
    tree.marks = own, alike
    return tree.marks


@lru_cache(maxsize=1 << 12)
def compute_own_marks(tag: str, attributes: str) -> int:
    """Compute the marks of one element from its tag and attributes. The kernel `read_marks` computes the same marks.

    Args:
        tag: Name of the element in lower case.
        attributes: The element's raw attribute string.

    Returns:
        A sum of values of `BIT`.

    >>> compute_own_marks("div", 'class="related-links a"') == BIT["related"]
    True
    """
    bits = TAG_BITS.get(tag, 0)
    for name, *values in ATTRIBUTE.findall(attributes):
        if (name := name.lower()) in ATTRIBUTES:
            bits |= _find_attribute_marks(name, "".join(values))
    return bits


def find_first_class(attributes: str) -> str:
    """Return the first class in an element's raw attribute string, such as ' class="a b"'; "" if there is none."""
    values = ("".join(values).split() for name, *values in ATTRIBUTE.findall(attributes) if name.lower() == "class")
    return next((words[0] for words in values if words), "")


def _find_attribute_marks(name: str, value: str) -> int:
    """Return the marks implied by an attribute's name (in lower case) and value, as a sum of values of `BIT`."""
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
        bits |= find_word_marks(word)
    return bits


@lru_cache(maxsize=1 << 14)
def find_word_marks(word: str) -> int:
    """Return the marks implied by a word in a class, an id or a component name, as a sum of values of `BIT`."""
    word = CAMEL_HUMP.sub("-", word).lower()
    return sum(bit for bit, pattern in PATTERNS if pattern.search(word))


@cache
def build_word_table() -> kernels.MarkTable:
    """Build the table of words that `read_marks` searches. The result is cached in the process."""
    after, gives, never = ([[0] * width for _ in range(kernels.STYLE_ROOT + 1)] for width in (kernels.NUM_CODES, 9, 1))

    def find_node(node: int, word: str) -> int:
        for code in kernels.CODES[[ord(letter) for letter in word]].tolist():
            if not after[node][code]:
                after[node][code] = len(after)
                for rows in (after, gives, never):
                    rows.append([0] * len(rows[0]))
            node = after[node][code]
        return node

    for mark, pattern in WORDS.items():
        for word, place, others in _iter_words(pattern):
            gives[find_node(kernels.WORD_ROOT, word)][place] |= BIT[mark]
            for other in others:
                never[find_node(kernels.WORD_ROOT, word + other)][0] |= BIT[mark]
    for name in ATTRIBUTES:
        gives[find_node(kernels.NAME_ROOT, name)][:2] = VALUE_KINDS.get(name, kernels.WORDS), BIT["not shown"]
    for root, marks in ((kernels.ROLE_ROOT, ROLES), (kernels.PROPERTY_ROOT, PROPERTIES), (kernels.STYLE_ROOT, STYLES)):
        for word, mark in marks.items():
            gives[find_node(root, word)][0] = BIT[mark]
    marks_array, excluded_array = np.array(gives, np.int64), np.array(never, np.int64)[:, 0].copy()
    return kernels.MarkTable(
        np.array(after, np.int16), marks_array.any(1) | (excluded_array != 0), marks_array, excluded_array
    )


def _iter_words(pattern: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the words that a pattern of `WORDS` matches, as (word, column, strings that must not follow the word).

    The column is an index into the second axis of `MarkTable.marks`. It encodes what must surround the word.
    """
    for alternative in ALTERNATIVE.findall(pattern):
        match = EDGES.match(alternative)
        assert match is not None, alternative
        before, letters, behind, others = match.groups(default="")
        place = 3 * EDGE_KINDS[before] + EDGE_KINDS[behind]
        pieces = [one.split("|") if one else [letter[0], letter[1:] and ""][: len(letter)]
                  for one, letter in LETTERS.findall(letters)]  # fmt: skip
        for word in product(*pieces):
            yield "".join(word), place, others.split("|") if others else []


def carry_down_plain(
    parents: list[int], prose_sizes: list[int], own: list[int], repeats: list[bool], max_size: float, neutral: int
) -> list[list[int]]:
    """Compute the same values as the kernel `carry_down`, in plain Python, for tests.

    Args:
        parents, own, repeats, max_size, neutral: The arguments of `carry_down` with these names.
        prose_sizes: Number of characters of prose in each element (`prose` in `carry_down`).

    Returns:
        For each element, a list of five numbers: its depth; the marks of the element and its ancestors; and the index
        of the nearest element (itself or an ancestor) with marks against main text, with marks for main text, and with
        equal siblings. An index is -1 if there is no such element.
    """
    rows = [[0, 0, -1, -1, -1]]
    for at, parent in enumerate(parents[1:], 1):
        depth, around, *nearest = rows[parent]
        has = (own[at] & ~neutral, own[at] & neutral, repeats[at])
        around |= own[at] & neutral if prose_sizes[at] > max_size else own[at]
        rows.append([depth + 1, around, *(at if one else other for one, other in zip(has, nearest, strict=True))])
    return rows


FULL_STOPS = ".!?\u2026\u3002\uff01\uff1f"
LAST_CODE = 0xFFFF
IS_TERMINAL, IS_FULL_STOP = (
    np.isin(np.arange(LAST_CODE + 1), [ord(sign) for sign in signs])
    for signs in (FULL_STOPS + ":;,\"\u201d\u00bb\u2019')]", FULL_STOPS)
)
# What a name of an element is as a number: a heading its level; an unknown one is the last.
NAMES = (
    "p h1 h2 h3 h4 h5 h6 li td th tr table tbody blockquote pre div section article body main dt dd caption label "
    "button address summary figcaption noscript span form header footer aside nav ul ol dl figure fieldset center "
    "details a"
).split()
NUMBER = {name: number for number, name in enumerate(NAMES)}
HEADINGS = NAMES[1:7]
LAST_HEADING = NUMBER["h6"]
COUNTED_NAMES = ("article", "main", "form", "figure", "table", "section", "noscript")
SCHEMA_TYPES = ("Product", "Article", "Person", "Service", "Organization", "BreadcrumbList", "Question", "Offer")
SCHEMA_TYPE = re.compile(r'"@type"\s*+:\s*+\[?+\s*+"(?:https?://schema\.org/)?(\w+)')
JSON_ESCAPE = re.compile(r"\\\\[nrt]|<[^<>]{1,200}>|\\\\")
START_SIZE, MIN_START_SIZE = (
    60,
    16,
)  # characters of a text that are looked for in what the page gives, and at least
WIDE_WORD_CHARACTERS = 2  # characters of that width to a word
MAX_SEARCHED = 1 << 25  # characters for all blocks together: of what huge pages give, the beginning
MIN_PROSE_CHARACTERS = 80  # a block that is longer and mostly not links counts as prose
MAX_LINK_SHARE = 0.4  # the share of links from which on it does not
LEVELS = 5  # elements around a block that are measured
HOLDER_SHARES = (0.35, 0.6, 0.85)  # shares of a page's prose whose smallest elements are looked for
WINDOWS = (5, 15, 40)  # blocks
NO_ELEMENT_DISTANCE = 99

TEXT_COLUMNS = (
    "characters words linked terminal stop upper digit opening small lines commas periods word_length".split()
)
PLACE_COLUMNS = "element own around depth place text_before prose_before blocks_before blocks_after".split()
MARK_COLUMNS = [f"{name}{kind}" for kind in ("", " carried") for name in MARKS]
NEAR_COLUMNS = "against against_share for copies copy_length copy_linked copy_share copy_blocks same".split()
ELEMENT_COLUMNS = [f"{kind} {level}" for level in range(LEVELS) for kind in ("text", "prose", "links", "blocks")]
HOLDER_COLUMNS = [f"{kind} {share}" for share in HOLDER_SHARES for kind in ("inside", "apart", "held", "below")]
HEADING_COLUMNS = "since_heading heading_opening heading_level since_h1 said earlier".split()
GIVEN_COLUMNS = "in_data in_description in_title".split()
NEIGHBOR_COLUMNS = [f"{kind} {step:+}" for step in (-2, -1, 1, 2) for kind in ("length", "links", "element")]
WINDOW_COLUMNS = [f"{kind} within {size}" for size in WINDOWS for kind in ("prose", "links", "text")]
PAGE_COLUMNS = (
    *"blocks elements text prose prose_share link_share prose_blocks short headings h1 h2 h3 items cells p pre".split(),
    *"stops digits description scripts kind".split(),
    *(f"has {name}" for name in COUNTED_NAMES),
    *(f"is {name}" for name in SCHEMA_TYPES),
    *"path_length path_digits path_dashes path_slashes".split(),
)
FEATURES = (
    *TEXT_COLUMNS, *PLACE_COLUMNS, *MARK_COLUMNS, *NEAR_COLUMNS, *ELEMENT_COLUMNS, *HOLDER_COLUMNS, *HEADING_COLUMNS,
    *GIVEN_COLUMNS, *NEIGHBOR_COLUMNS, *WINDOW_COLUMNS,
    *(f"page {name}" for name in PAGE_COLUMNS),
)  # fmt: skip
PAGE_KINDS = {"": 0, "article": 1, "website": 2, "product": 3}
SHIFTS = np.arange(len(MARKS))[:, None]


class Sizes(NamedTuple):
    """A page's blocks and elements as arrays.

    The cumulative sums have one entry per block, preceded by zero.

    Attributes:
        nodes: Index of each block's element.
        parents: Index of each element's parent.
        first: Index of each element's first block.
        last: Index after each element's last block.
        elements: The name of each element, as an index into `NAMES`.
        own: The name of each block's element, as an index into `NAMES`.
        lengths: Number of characters of each block; wide characters count twice.
        text_sum: Cumulative sum of the blocks' characters.
        link_sum: Cumulative sum of the blocks' characters in links.
        prose_sum: Cumulative sum of the blocks' characters of prose.
    """

    nodes: Int64s
    parents: Int64s
    first: Int64s
    last: Int64s
    elements: Int64s
    own: Int64s
    lengths: Int64s
    text_sum: Int64s
    link_sum: Int64s
    prose_sum: Int64s

    def sum_inside(self, part: Int64s) -> Int64s:
        """Return the sum over the blocks inside each element, int64 [elements].

        Args:
            part: One of this object's cumulative sums, such as `text_sum`.
        """
        return part[self.last] - part[self.first]


def describe_blocks(tree: Tree, address: str, metas: dict[str, str]) -> Float32s:
    """Compute the features of a page's blocks.

    Args:
        tree: The page. It must have at least one block.
        address: URL of the page; "" if unknown.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.

    Returns:
        A float32 array with one row for each block and one column for each of `FEATURES`.
    """
    of_blocks, _, texts, links = zip(*tree.blocks, strict=True)
    elements, nodes = np.array([NUMBER.get(name, len(NAMES)) for name in tree.names])[tree.numbers], np.array(of_blocks)
    own = np.where(nodes > 0, elements[nodes], NUMBER["body"])
    codes, characters, counts = count_texts(texts)
    lengths = characters + counts[WIDE_COUNT]  # a character as wide as two says as much as two
    sums = _iter_sums(lengths, np.array(links) * lengths // characters)
    parents, (first, last) = np.maximum(tree.parents, 0), tree.spans.T
    sizes = Sizes(nodes, parents, first, np.maximum(first, last), elements, own, lengths, *sums)
    text = _describe_text(texts, sizes, codes, characters, counts)
    depths, around, near = _describe_nearest(sizes, *compute_marks(tree))
    levels = np.where(own <= LAST_HEADING, own, 0)
    groups: list[list[Float64s] | Float64s | Bools] = [
        text,
        _describe_places(sizes, depths),
        _describe_marks(sizes, around),
        near,
        _describe_elements(sizes),
        _describe_holders(sizes, depths),
        _describe_headings(texts, levels, text[TEXT_COLUMNS.index("opening")]),
        _describe_sources(tree, texts, metas, codes, characters),
        _describe_neighbors(sizes),
        _describe_windows(sizes),
    ]
    columns = np.empty((len(FEATURES), len(texts)), np.float32)
    at = 0
    for group in groups:
        columns[at : at + len(group)] = np.asarray(group)
        at += len(group)
    columns[at:] = np.array(_describe_page(tree, address, metas, sizes, levels, text), np.float32)[:, None]
    return columns.T


def count_texts(texts: tuple[str, ...]) -> tuple[UInt32s, Int64s, Int64s]:
    """Count the characters of strings by kind.

    Returns:
        The code points of all strings in one uint32 array, the number of characters of each string, and an int64 array
        [8, strings]. Its rows count capitals and digits among the first 100 characters, commas, sentence ends, spaces,
        line feeds and wide characters. The last row is 1 if the string may open like page furniture ("Read more").
    """
    characters = np.array([len(text) for text in texts])
    counts = np.zeros((NUM_COUNTS, len(texts)), np.int64)
    codes = _to_codes("".join(texts))
    count_characters(codes, characters, classify_characters(), list_openings(), counts)
    return codes, characters, counts


def _to_codes(text: str) -> UInt32s:
    """Return the code points of a string as a uint32 array."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _iter_sums(lengths: Int64s, links: Int64s) -> Iterator[Int64s]:
    """Yield three cumulative sums over the blocks: all characters, characters in links, and characters of prose.

    Each is an int64 array that begins with 0. A block counts as prose if it has over 80 characters, most of them
    outside links.

    Args:
        lengths: Number of characters of each block.
        links: Number of characters of each block that are in links.
    """
    prose = np.where((lengths > MIN_PROSE_CHARACTERS) & (links < MAX_LINK_SHARE * lengths), lengths, 0)
    return (np.concatenate(([0], np.cumsum(column))) for column in (lengths, links, prose))


def _describe_text(
    texts: tuple[str, ...], sizes: Sizes, codes: UInt32s, characters: Int64s, counts: Int64s
) -> list[Float64s]:
    """Return the feature columns `TEXT_COLUMNS`, which describe the text of each block.

    Args:
        texts: The text of each block.
        sizes: The page's blocks and elements.
        codes: The code points of all texts, concatenated.
        characters: The number of characters of each text.
        counts: Counts of kinds of characters, int64 [8, texts], as returned by `count_texts`.
    """
    capitals, digits, commas, ends, spaces, lines, wide, may_open = counts
    words, heads = spaces + 1 + wide // WIDE_WORD_CHARACTERS, np.minimum(characters, HEAD_CHARACTERS)
    opening = np.zeros(len(texts))
    for at in np.flatnonzero(may_open).tolist():
        opening[at] = OPENING.match(texts[at]) is not None
    lasts = np.minimum(codes[np.cumsum(characters) - 1], LAST_CODE)
    return [
        sizes.lengths,
        words,
        np.diff(sizes.link_sum) / sizes.lengths,
        IS_TERMINAL[lasts],
        IS_FULL_STOP[lasts],
        capitals / heads,
        digits / heads,
        opening,
        np.array([text[0].islower() for text in texts]),
        lines,
        commas / words,
        ends / words,
        sizes.lengths / words,
    ]


def _describe_places(sizes: Sizes, depths: Int64s) -> list[Float64s]:
    """Return the feature columns `PLACE_COLUMNS`, which describe where each block is in the page.

    Args:
        sizes: The page's blocks and elements.
        depths: Depth of each element.
    """
    count = len(sizes.nodes)
    number = np.arange(count)
    return [
        sizes.own,
        sizes.elements[sizes.nodes],
        sizes.elements[sizes.parents[sizes.nodes]],
        depths[sizes.nodes],
        number / count,
        sizes.text_sum[:-1] / sizes.text_sum[-1],
        sizes.prose_sum[:-1] / max(1, sizes.prose_sum[-1]),
        number,
        count - number,
    ]


def _describe_marks(sizes: Sizes, around: Int64s) -> Float64s:
    """Return the feature columns `MARK_COLUMNS`, float64 [columns, blocks].

    There are two groups of columns, each with one column per mark. The first is 1 if the block has the mark, else 0.
    The second is the share of the page's text that has the mark, or -1 if the block does not have it.

    Args:
        sizes: The page's blocks and elements.
        around: The marks of each element and its ancestors, as bits.
    """
    has_mark = around[sizes.nodes] >> SHIFTS & 1
    carried_share = (has_mark @ sizes.lengths) / sizes.text_sum[-1]
    return np.concatenate((has_mark, np.where(has_mark > 0, carried_share[:, None], -1.0)))


def _describe_nearest(sizes: Sizes, marks: Int64s, group_keys: Int64s) -> tuple[Int64s, Int64s, list[Float64s]]:
    """Return each element's depth, the marks of each element and its ancestors, and the features `NEAR_COLUMNS`.

    The columns are, in order: the distance and the contents of the nearest element with marks against main text; the
    distance of the nearest element with marks for main text; the number, text, links and blocks of the nearest element
    that has two equal siblings; the number of elements equal to the block's own element.

    Args:
        sizes: The page's blocks and elements.
        marks: The marks of each element, as bits.
        group_keys: A digest for each element that is equal for equal siblings, as returned by `compute_marks`.
    """
    held, linked, blocks = sizes.sum_inside(sizes.text_sum), sizes.sum_inside(sizes.link_sum), sizes.last - sizes.first
    keys = np.unique(group_keys, return_inverse=True)[1]
    equal, text, links, inside = (np.bincount(keys, part)[keys] for part in (blocks > 0, held, linked, blocks))
    repeats = (equal >= 3) & (blocks > 0)
    repeats[0] = False
    carried = np.empty((5, len(marks)), np.int64)
    most = MAX_PROSE_SHARE * sizes.prose_sum[-1]
    carry_down(sizes.parents, sizes.sum_inside(sizes.prose_sum), marks, repeats, most, NEUTRAL, carried)
    depths, around, (at_against, at_for, at_repeated) = carried[0], carried[1], carried[2:, sizes.nodes]
    own_depths, total, copied = depths[sizes.nodes], sizes.text_sum[-1], at_repeated >= 0
    columns = [
        np.where(at_against >= 0, own_depths - depths[at_against], NO_ELEMENT_DISTANCE + 1 + own_depths),
        np.where(at_against >= 0, held[at_against] / total, 1.0),
        np.where(at_for >= 0, own_depths - depths[at_for], NO_ELEMENT_DISTANCE + 1 + own_depths),
    ]
    of_copies = (
        equal,
        text / np.maximum(equal, 1),
        links / np.maximum(text, 1),
        text / total,
        inside / np.maximum(equal, 1),
    )
    columns += [np.where(copied, column[at_repeated], 0.0) for column in of_copies]
    return depths, around, [*columns, equal[sizes.nodes]]


def _describe_elements(sizes: Sizes) -> list[Float64s]:
    """Return the feature columns `ELEMENT_COLUMNS` for the five innermost elements around each block.

    For each element, the columns are its shares of the page's text and prose, the share of its text that is in links,
    and its number of blocks.
    """
    held, prose, blocks = sizes.sum_inside(sizes.text_sum), sizes.sum_inside(sizes.prose_sum), sizes.last - sizes.first
    links = sizes.sum_inside(sizes.link_sum) / np.maximum(held, 1)
    text, prose = held / sizes.text_sum[-1], prose / max(1, sizes.prose_sum[-1])
    columns, at = [], sizes.nodes
    for _ in range(LEVELS):
        columns += [text[at], prose[at], links[at], blocks[at]]
        at = sizes.parents[at]
    return columns


def _describe_holders(sizes: Sizes, depths: Int64s) -> list[Float64s]:
    """Return the feature columns `HOLDER_COLUMNS` for the smallest elements with certain shares of the page's prose.

    For each share, the columns tell whether the block is in that element, how many blocks away it is, the element's
    share of all blocks, and how much deeper the block is than the element.

    Args:
        sizes: The page's blocks and elements.
        depths: Depth of each element.
    """
    prose, blocks = sizes.sum_inside(sizes.prose_sum), sizes.last - sizes.first
    number = np.arange(len(sizes.nodes))
    columns = []
    for share in HOLDER_SHARES:
        holding = np.flatnonzero(prose >= share * sizes.prose_sum[-1])
        fewest = blocks[holding]
        at = int(holding[len(holding) - 1 - np.argmin(fewest[::-1])])  # of those with as few, the innermost
        first, last = sizes.first[at], sizes.last[at]
        apart = np.where(number < first, number - first, np.where(number < last, 0, number - last + 1))
        held = np.full(len(number), blocks[at] / len(number))
        columns += [(first <= number) & (number < last), apart, held, depths[sizes.nodes] - depths[at]]
    return columns


def _describe_headings(texts: tuple[str, ...], levels: Int64s, openings: Float64s) -> list[Float64s]:
    """Return the feature columns `HEADING_COLUMNS` for each block.

    They describe the preceding heading, its distance, and repetitions of the block's text.

    Args:
        texts: The text of each block.
        levels: The level (1 to 6) of each block that is a heading; 0 for other blocks.
        openings: A positive number for each block that begins like page furniture; 0 for other blocks.
    """
    number = np.arange(len(texts))
    at = np.maximum.accumulate(np.where(levels > 0, number, -1))
    is_after = at >= 0
    first_h1 = int(np.argmax(levels == 1)) if 1 in levels else len(texts)
    different: dict[str, int] = {}
    keys = np.array([different.setdefault(text, len(different)) for text in texts])
    return [
        np.where(is_after, number - at, -1),
        is_after & (openings[at] > 0),
        np.where(is_after, levels[at], 0),
        np.where(number >= first_h1, number - first_h1, -1),
        np.bincount(keys)[keys],
        keys <= np.concatenate(([-1], np.maximum.accumulate(keys)[:-1])),
    ]


def _describe_sources(
    tree: Tree, texts: tuple[str, ...], metas: dict[str, str], codes: UInt32s, characters: Int64s
) -> Bools:
    """Return the feature columns `GIVEN_COLUMNS`, bool [3, blocks].

    They are True if a block's text begins like a string in the page's JSON-LD, its description or its title.

    Args:
        tree: The page.
        texts: The text of each block.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        codes: The code points of all texts, concatenated.
        characters: The number of characters of each text.
    """
    data = " ".join(_strip_escapes(script) for script in tree.scripts)
    description = " ".join((metas.get("og:description", ""), metas.get("description", "")))
    sources = (data, description, tree.title)
    candidates = np.flatnonzero(
        find_possible_starts(codes, characters, MIN_START_SIZE, _to_codes("\n".join(sources)))
    ).tolist()
    is_found, max_characters = np.zeros((len(sources), len(texts)), np.bool_), MAX_SEARCHED // max(1, len(candidates))
    for row, text in enumerate(text[:max_characters] for text in sources):
        is_found[row, candidates] = [texts[at][:START_SIZE] in text for at in candidates]
    return is_found


def _strip_escapes(script: str) -> str:
    """Return a JSON-LD script on one line and with escapes approximately removed, so that it can be searched."""
    return " ".join(JSON_ESCAPE.sub(" ", script).split()) if "\\" in script else script


def _describe_neighbors(sizes: Sizes) -> Float64s:
    """Return the feature columns `NEIGHBOR_COLUMNS` for the two blocks before and after each block.

    For each neighbor, the columns are its length, its share of links, and its element; -1 if there is no such block.
    """
    values = np.full((3, len(sizes.own) + 4), -1.0)
    values[:, 2:-2] = sizes.lengths, np.diff(sizes.link_sum) / sizes.lengths, sizes.own
    return np.concatenate([values[:, start : start + len(sizes.own)] for start in (0, 1, 3, 4)])


def _describe_windows(sizes: Sizes) -> list[Float64s]:
    """Return the feature columns `WINDOW_COLUMNS` for the blocks within 5, 15 and 40 blocks of each block.

    For each distance, the columns are the share of the page's prose that these blocks hold, the share of their text
    that is in links, and the share of the page's text that they hold.
    """
    number = np.arange(len(sizes.nodes))
    columns = []
    for size in WINDOWS:
        first, last = np.maximum(number - size, 0), np.minimum(number + size + 1, len(number))
        text = sizes.text_sum[last] - sizes.text_sum[first]
        columns += [
            (sizes.prose_sum[last] - sizes.prose_sum[first]) / max(1, sizes.prose_sum[-1]),
            (sizes.link_sum[last] - sizes.link_sum[first]) / text,
            text / sizes.text_sum[-1],
        ]
    return columns


def _describe_page(
    tree: Tree, address: str, metas: dict[str, str], sizes: Sizes, levels: Int64s, text: list[Float64s]
) -> list[float]:
    """Return the values of `PAGE_COLUMNS`, which are the same for all blocks.

    Args:
        tree: The page.
        address: URL of the page; "" if unknown.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        sizes: The page's blocks and elements.
        levels: The level (1 to 6) of each block that is a heading; 0 for other blocks.
        text: The columns `TEXT_COLUMNS`, as returned by `_describe_text`.
    """
    count, total, prose = len(levels), int(sizes.text_sum[-1]), int(sizes.prose_sum[-1])
    blocks, elements = (
        dict(zip(NAMES, np.bincount(numbers, minlength=len(NAMES)).tolist(), strict=False))
        for numbers in (sizes.own, sizes.elements)
    )
    types = {name for script in tree.scripts for name in SCHEMA_TYPE.findall(script)}
    parts = split_address(address or metas.get("og:url", ""))
    path = parts.path if parts else ""
    stop, digit = (float(text[TEXT_COLUMNS.index(name)].mean()) for name in ("stop", "digit"))
    return [
        count, len(tree.numbers), total, prose, prose / total, int(sizes.link_sum[-1]) / total,
        int(np.count_nonzero(np.diff(sizes.prose_sum))), int(np.count_nonzero(sizes.lengths < 30)) / count,
        int(np.count_nonzero(levels)), blocks["h1"], blocks["h2"], blocks["h3"],
        blocks["li"] / count, blocks["td"] / count, blocks["p"] / count, blocks["pre"],
        stop, digit, len(metas.get("og:description", metas.get("description", ""))), len(tree.scripts),
        PAGE_KINDS.get(metas.get("og:type", "").lower(), len(PAGE_KINDS)),
        *(elements[name] for name in COUNTED_NAMES),
        *(any(kind.endswith(name) for kind in types) for name in SCHEMA_TYPES),
        *((-1, -1, -1, -1) if parts is None else
          (len(path), sum(map(str.isdigit, path)), path.count("-"), path.count("/"))),
    ]  # fmt: skip
