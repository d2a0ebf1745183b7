"""The blocks of a page as rows of numbers: what each looks like, what is around it, and what the page is like.

Promises: a pure function of a page's table and its address. Every number is a count, a share of two counts, or stands
for a name, so it is the same on every machine. No number is of a site: addresses are measured, not read.
Costs: 10 ms for a page of 240 kB in 250 blocks on a busy core, half of them for names of classes not seen before.

A block is judged by
    its text           length, links, marks at its end, capitals, how it opens; a character as wide as two counts as two
    its markup         the names of its element and of those around it, and the marks of these (`marks`), each with the
                       share of the page's text that carries it: what most of a page carries says little
    its elements       how much text, prose and links the five innermost around it hold, and how far it is from the
                       smallest that hold a third, most and nearly all of the page's prose
    its siblings       how many equal elements stand beside those around it (cards, posts, rows), and how large they are
    its neighbors      the blocks before and after it, and the prose and links within 5, 15 and 40 blocks
    its page's data    whether JSON-LD, the description or the title say what it begins with
    its page           sizes, headings, lists, kinds of elements, what its data say it is
"""

import re
from functools import cache
from typing import NamedTuple
from unicodedata import category
from urllib.parse import urlsplit

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Float32s, Float64s, Int64s
from corpora.sources.web.main_text.marks import AGAINST, MARKS, NEUTRAL, Marks, marks_of
from corpora.sources.web.tree import Tree

OPENING = re.compile(
    r"\W*(?:read (?:more|also|next|the full)|see also|also read|related|more (?:from|on|stories|:)|recommended|share|"
    r"follow|subscribe|sign up|click here|advertis\w*|photo|image|getty|file photo|video|watch|listen|comments?|"
    r"leave a|copyright|all rights|©|posted|published|updated|last (?:updated|modified)|by\b|from\b|tags?\b|topics?|"
    r"categor\w*|source|print|email|tweet|facebook|newsletter|get (?:the|our)|join|download|contact|about|view|"
    r"continue|reporting by|editing by|also\b|mehr|lesen|weiter|czytaj|więcej|zobacz|leggi|mire|lee\b|lees|"
    r"ver m[aá]s|veja|voir|articles?\b|artikel|teilen|drucken|kommentare?|kontakt|impressum|datenschutz|quelle|autor|"
    r"von\b|par\b|por\b|auch interessant|anzeige|foto|bild|lire|à lire|photos?|partager|leia|lea|fotos?|log ?in|"
    r"register|sponsored|don't miss|trending|popular|top stories|next|previous|this (?:article|story|content)|we use|"
    r"cookie|support|donate|story continues|skip|back to|follow us|read:|more:)\b",
    re.IGNORECASE,
)
TERMINAL = frozenset(".!?\u2026\u3002\uff01\uff1f:;,\"\u201d\u00bb\u2019')]")
FULL_STOPS = frozenset(".!?\u2026\u3002\uff01\uff1f")
HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
# What a name of an element is as a number; an unknown one is the last.
NAMES = (
    "p h1 h2 h3 h4 h5 h6 li td th tr table tbody blockquote pre div section article body main dt dd caption label "
    "button address summary figcaption noscript span form header footer aside nav ul ol dl figure fieldset center "
    "details a"
).split()
NUMBER = {name: number for number, name in enumerate(NAMES)}
COUNTED = ("article", "main", "form", "figure", "table", "section", "noscript")
TYPES = ("Product", "Article", "Person", "Service", "Organization", "BreadcrumbList", "Question", "Offer")
TYPE = re.compile(r'"@type"\s*+:\s*+\[?+\s*+"(?:https?://schema\.org/)?(\w+)')
ESCAPE = re.compile(r"\\\\[nrt]|<[^<>]{1,200}>|\\\\")
BEGINNING, LEAST_GIVEN = 60, 16  # characters of a text that are looked for in what the page gives, and at least
WIDE, NOT_WIDE = 0x2E80, 0xFE30  # code points from which on and before which a character is as wide as two, mostly
WIDE_WORD = 2  # characters of that width to a word
MOST_SEARCHED = 1 << 28  # characters for all blocks together: of what huge pages give, the beginning
HEAD = 100  # characters of a text whose capitals and digits are counted
CAPITAL, DIGIT, COMMA, END = 1, 2, 3, 4  # classes of characters
CATEGORIES = {"Lu": CAPITAL, "Lt": CAPITAL, "Nd": DIGIT, "Nl": DIGIT}
COMMAS, ENDS = ",;\u3001\uff0c\uff1b", ".!?\u2026\u203d\u3002\uff01\uff1f\uff61"
PROSE = 80  # a block that is longer and mostly not links counts as prose
LINKED = 0.4  # the share of links from which on it does not
LEVELS = 5  # elements around a block that are measured
HOLDS = (0.35, 0.6, 0.85)  # shares of a page's prose whose smallest elements are looked for
WINDOWS = (5, 15, 40)  # blocks
FAR = 99

TEXT = "characters words linked terminal stop upper digit opening small lines commas periods word_length".split()
PLACE = "element own around depth place text_before prose_before blocks_before blocks_after".split()
MARKED = [f"{name}{kind}" for kind in ("", " carried") for name in MARKS]
NEAR = "against against_share for copies copy_length copy_linked copy_share copy_blocks same".split()
ELEMENTS = [f"{kind} {level}" for level in range(LEVELS) for kind in ("text", "prose", "links", "blocks")]
HOLDERS = [f"{kind} {share}" for share in HOLDS for kind in ("inside", "apart", "held", "below")]
HEADED = "since_heading heading_opening heading_level since_h1 said earlier".split()
GIVEN = "in_data in_description in_title".split()
NEIGHBORS = [f"{kind} {step:+}" for step in (-2, -1, 1, 2) for kind in ("length", "links", "element")]
WITHIN = [f"{kind} within {size}" for size in WINDOWS for kind in ("prose", "links", "text")]
PAGE = (
    *"blocks elements text prose prose_share link_share prose_blocks short headings h1 h2 h3 items cells p pre".split(),
    *"stops digits description scripts kind".split(),
    *(f"has {name}" for name in COUNTED),
    *(f"is {name}" for name in TYPES),
    *"path_length path_digits path_dashes path_slashes".split(),
)
FEATURES = (
    *TEXT, *PLACE, *MARKED, *NEAR, *ELEMENTS, *HOLDERS, *HEADED, *GIVEN, *NEIGHBORS, *WITHIN,
    *(f"page {name}" for name in PAGE),
)  # fmt: skip
KINDS = {"": 0, "article": 1, "website": 2, "product": 3}
SHIFTS = np.arange(len(MARKS), dtype=np.uint64)


class Sizes(NamedTuple):
    """A page's blocks and elements as arrays. The sums have an entry more than there are blocks, and begin with 0.

    nodes:                    the element of each block
    parents, first, last:     of each element: the one around it, its first block and the one after its last
    text_sum, link_sum, prose_sum: characters of the blocks before each
    """

    nodes: Int64s
    parents: Int64s
    first: Int64s
    last: Int64s
    lengths: Int64s
    text_sum: Int64s
    link_sum: Int64s
    prose_sum: Int64s

    def share(self, part: Int64s, whole: Int64s) -> Float64s:
        """The share that a sum is of another, over the blocks of each element."""
        shares: Float64s = (part[self.last] - part[self.first]) / np.maximum(whole[self.last] - whole[self.first], 1)
        return shares


def describe(tree: Tree, address: str, metas: dict[str, str]) -> Float32s:
    """A row for each block of a page, with a column for each of `FEATURES`. metas: as `metas_of` gives them."""
    sizes = sizes_of(tree)
    text = _text_columns(tree, sizes)
    elements = np.array([NUMBER.get(tag, len(NAMES)) for tag in tree.tags])
    own = np.array([NUMBER.get(block.tag, len(NAMES)) for block in tree.blocks])
    depths, marks = _depths(tree), marks_of(tree, sizes.prose_sum.tolist())
    columns = [
        *text,
        *_places(sizes, own, elements, depths),
        *_marked(sizes, marks),
        *_near(tree, sizes, marks, depths),
        *_elements(sizes),
        *_holders(sizes, depths),
        *_headed(tree, text[TEXT.index("opening")]),
        *_given(tree, metas),
        *_neighbors(sizes, own),
        *_within(sizes),
    ]
    page = _page(tree, address, metas, sizes, text)
    rows = np.empty((len(tree.blocks), len(FEATURES)), np.float32)
    for at, column in enumerate(columns):
        rows[:, at] = column
    rows[:, len(columns) :] = page
    return rows


def sizes_of(tree: Tree) -> Sizes:
    """The sizes of a page that has a block."""
    lengths, links = np.array([(len(block.text), block.links) for block in tree.blocks]).T
    if (wide := _wide(tree, lengths)).any():  # a character as wide as two says as much as two
        links, lengths = links * (lengths + wide) // lengths, lengths + wide
    parents = np.array(tree.parents)
    parents[0] = 0
    spans = np.array(tree.spans)
    prose = np.where((lengths > PROSE) & (links < LINKED * lengths), lengths, 0)
    sums = (np.concatenate(([0], np.cumsum(column))) for column in (lengths, links, prose))
    nodes = np.array([block.node for block in tree.blocks])
    return Sizes(nodes, parents, spans[:, 0], np.maximum(spans[:, 0], spans[:, 1]), lengths, *sums)


def _wide(tree: Tree, lengths: Int64s) -> Int64s:
    """How many characters of each block are as wide as two."""
    text = "".join(block.text for block in tree.blocks)
    if text.isascii():
        return np.zeros(len(lengths), np.int64)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.add.reduceat((codes >= WIDE) & (codes < NOT_WIDE), np.cumsum(lengths) - lengths, dtype=np.int64)


def _text_columns(tree: Tree, sizes: Sizes) -> list[Float64s]:
    """What the text of each block looks like."""
    texts = [block.text for block in tree.blocks]
    lengths, links = sizes.lengths, np.diff(sizes.link_sum)
    characters = np.array([len(text) for text in texts])
    heads = np.minimum(characters, HEAD)
    in_heads, in_texts = _classes("".join(text[:HEAD] for text in texts)), _classes("".join(texts))
    head_starts, starts = np.cumsum(heads) - heads, np.cumsum(characters) - characters
    words = np.array([text.count(" ") + 1 for text in texts]) + (lengths - characters) // WIDE_WORD
    return [
        lengths,
        words,
        links / lengths,
        np.array([text[-1] in TERMINAL for text in texts]),
        np.array([text[-1] in FULL_STOPS for text in texts]),
        np.add.reduceat(in_heads == CAPITAL, head_starts, dtype=np.int64) / heads,
        np.add.reduceat(in_heads == DIGIT, head_starts, dtype=np.int64) / heads,
        np.array([OPENING.match(text) is not None for text in texts]),
        np.array([text[0].islower() for text in texts]),
        np.array([text.count("\n") for text in texts]),
        np.add.reduceat(in_texts == COMMA, starts, dtype=np.int64) / words,
        np.add.reduceat(in_texts == END, starts, dtype=np.int64) / words,
        lengths / words,
    ]


def _classes(text: str) -> Bytes:
    """The class of each character of a text."""
    classes = _character_classes()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return classes[np.minimum(codes, len(classes) - 1)]


@cache
def _character_classes() -> Bytes:
    """The class of every code point below 0x10000: a capital, a digit, a comma, an end of a sentence, or none."""
    classes = np.zeros(0x10000, np.uint8)
    for code in range(len(classes)):
        classes[code] = CATEGORIES.get(category(chr(code)), 0)
    for kind, characters in ((COMMA, COMMAS), (END, ENDS)):
        classes[[ord(character) for character in characters]] = kind
    return classes


def _depths(tree: Tree) -> Int64s:
    depths = [0]
    for parent in tree.parents[1:]:
        depths.append(depths[parent] + 1)
    return np.array(depths)


def _places(sizes: Sizes, own: Int64s, elements: Int64s, depths: Int64s) -> list[Float64s]:
    count = len(sizes.nodes)
    number = np.arange(count)
    return [
        own,
        elements[sizes.nodes],
        elements[sizes.parents[sizes.nodes]],
        depths[sizes.nodes],
        number / count,
        sizes.text_sum[:-1] / sizes.text_sum[-1],
        sizes.prose_sum[:-1] / max(1, sizes.prose_sum[-1]),
        number,
        count - number,
    ]


def _marked(sizes: Sizes, marks: Marks) -> list[Float64s]:
    """Of each mark whether the block has it; then the share of the page's text with it, or -1 where not."""
    bits = np.array(marks.around, np.uint64)[sizes.nodes]
    has = ((bits[:, None] >> SHIFTS) & np.uint64(1)).astype(np.int64)
    carried = (sizes.lengths @ has) / sizes.text_sum[-1]
    return [*has.T, *np.where(has > 0, carried, -1.0).T]


def _near(tree: Tree, sizes: Sizes, marks: Marks, depths: Int64s) -> list[Float64s]:
    """How far the nearest element is whose own marks speak against text and what it holds, and how far the nearest for
    it; then of the nearest element with two equal ones beside it their number, text, links and blocks; then how many
    are equal to the block's own element."""
    held, linked = (sums[sizes.last] - sums[sizes.first] for sums in (sizes.text_sum, sizes.link_sum))
    blocks = sizes.last - sizes.first
    numbers: dict[tuple[int, str, str], int] = {}
    keys = np.array([
        numbers.setdefault(key, len(numbers)) for key in zip(tree.parents, tree.tags, marks.classes, strict=True)
    ])  # fmt: skip
    equal, text, links, inside = (
        np.bincount(keys, part, len(numbers))[keys] for part in (blocks > 0, held, linked, blocks)
    )
    repeats = ((equal >= 3) & (blocks > 0)).tolist()
    repeats[0] = False
    against, speaks_for, repeated = [-1], [-1], [-1]
    for node, (parent, bits) in enumerate(zip(tree.parents[1:], marks.own[1:], strict=True), 1):
        against.append(node if bits & AGAINST else against[parent])
        speaks_for.append(node if bits & NEUTRAL else speaks_for[parent])
        repeated.append(node if repeats[node] else repeated[parent])
    at_against, at_for, at_repeated = (np.array(at)[sizes.nodes] for at in (against, speaks_for, repeated))
    own_depths, total, copied = depths[sizes.nodes], sizes.text_sum[-1], at_repeated >= 0
    columns = [
        np.where(at_against >= 0, own_depths - depths[at_against], FAR + 1 + own_depths),
        np.where(at_against >= 0, held[at_against] / total, 1.0),
        np.where(at_for >= 0, own_depths - depths[at_for], FAR + 1 + own_depths),
    ]
    of_copies = (
        equal,
        text / np.maximum(equal, 1),
        links / np.maximum(text, 1),
        text / total,
        inside / np.maximum(equal, 1),
    )
    columns += [np.where(copied, column[at_repeated], 0.0) for column in of_copies]
    return [*columns, equal[sizes.nodes]]


def _elements(sizes: Sizes) -> list[Float64s]:
    """What the elements around a block hold: shares of the page's text and prose, their links, their blocks."""
    text = (sizes.text_sum[sizes.last] - sizes.text_sum[sizes.first]) / sizes.text_sum[-1]
    prose = (sizes.prose_sum[sizes.last] - sizes.prose_sum[sizes.first]) / max(1, sizes.prose_sum[-1])
    links, blocks = sizes.share(sizes.link_sum, sizes.text_sum), sizes.last - sizes.first
    columns, at = [], sizes.nodes
    for _ in range(LEVELS):
        columns += [text[at], prose[at], links[at], blocks[at]]
        at = sizes.parents[at]
    return columns


def _holders(sizes: Sizes, depths: Int64s) -> list[Float64s]:
    """Whether a block is in the smallest element that holds a share of the page's prose, and how far from it."""
    prose, blocks = sizes.prose_sum[sizes.last] - sizes.prose_sum[sizes.first], sizes.last - sizes.first
    number = np.arange(len(sizes.nodes))
    columns = []
    for share in HOLDS:
        holding = np.flatnonzero(prose >= share * sizes.prose_sum[-1])
        fewest = blocks[holding]
        at = int(holding[len(holding) - 1 - np.argmin(fewest[::-1])])  # of those with as few, the innermost
        first, last = sizes.first[at], sizes.last[at]
        apart = np.where(number < first, number - first, np.where(number < last, 0, number - last + 1))
        held = np.full(len(number), blocks[at] / len(number))
        columns += [(first <= number) & (number < last), apart, held, depths[sizes.nodes] - depths[at]]
    return columns


def _headed(tree: Tree, openings: Float64s) -> list[Float64s]:
    """How far the heading before a block is and what it is; how often the block's text stands in the page."""
    counts: dict[str, int] = {}
    for block in tree.blocks:
        counts[block.text] = counts.get(block.text, 0) + 1
    earlier: set[str] = set()
    rows = []
    heading, first_h1, level, opening = -1, -1, 0, False
    for at, block in enumerate(tree.blocks):
        if is_heading := HEADINGS.get(block.tag, 0):
            heading, level, opening = at, is_heading, bool(openings[at])
            if level == 1 and first_h1 < 0:
                first_h1 = at
        rows.append((
            at - heading if heading >= 0 else -1, opening, level, at - first_h1 if first_h1 >= 0 else -1,
            counts[block.text], block.text in earlier,
        ))  # fmt: skip
        earlier.add(block.text)
    return [*np.array(rows, np.float64).T]


def _given(tree: Tree, metas: dict[str, str]) -> list[Bools]:
    """Whether a block's text begins as something that the page's data, its description or its title says."""
    data = " ".join(_plain(script) for script in tree.scripts)
    description = " ".join((metas.get("og:description", ""), metas.get("description", "")))
    heads = [block.text[:BEGINNING] if len(block.text) >= LEAST_GIVEN else "\0" for block in tree.blocks]
    most = MOST_SEARCHED // len(heads)
    given = (text[:most] for text in (data, description, tree.title))
    return [np.array([head in text for head in heads]) for text in given]


def _plain(script: str) -> str:
    """What a script of JSON-LD says, near enough: without escapes and on one line."""
    return " ".join(ESCAPE.sub(" ", script).split()) if "\\" in script else script


def _neighbors(sizes: Sizes, own: Int64s) -> list[Float64s]:
    """Length, links and element of the blocks beside; -1 where there is none."""
    count = len(own)
    linked = np.diff(sizes.link_sum) / sizes.lengths
    columns = []
    for step in (-2, -1, 1, 2):
        at = np.arange(count) + step
        there = (at >= 0) & (at < count)
        at = np.clip(at, 0, count - 1)
        columns += [np.where(there, column[at], -1) for column in (sizes.lengths, linked, own)]
    return columns


def _within(sizes: Sizes) -> list[Float64s]:
    """Prose, links and text of the blocks around: shares of the page's prose, of the text there, of the page's text."""
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


def _page(tree: Tree, address: str, metas: dict[str, str], sizes: Sizes, text: list[Float64s]) -> list[float]:
    """The columns of `PAGE`."""
    count, total, prose = len(tree.blocks), int(sizes.text_sum[-1]), int(sizes.prose_sum[-1])
    tags = [block.tag for block in tree.blocks]
    levels = [HEADINGS.get(tag, 0) for tag in tags]
    types = {name for script in tree.scripts for name in TYPE.findall(script)}
    path = path_of(address or metas.get("og:url", ""))
    stop, digit = (float(text[TEXT.index(name)].mean()) for name in ("stop", "digit"))
    return [
        count, len(tree.tags), total, prose, prose / total, int(sizes.link_sum[-1]) / total,
        int(np.count_nonzero(np.diff(sizes.prose_sum))), int(np.count_nonzero(sizes.lengths < 30)) / count,
        sum(level > 0 for level in levels), *(levels.count(level) for level in (1, 2, 3)),
        tags.count("li") / count, tags.count("td") / count, tags.count("p") / count, tags.count("pre"),
        stop, digit, len(metas.get("og:description", metas.get("description", ""))), len(tree.scripts),
        KINDS.get(metas.get("og:type", "").lower(), len(KINDS)),
        *(tree.tags.count(name) for name in COUNTED),
        *(any(kind.endswith(name) for kind in types) for name in TYPES),
        *((-1, -1, -1, -1) if path is None else
          (len(path), sum(map(str.isdigit, path)), path.count("-"), path.count("/"))),
    ]  # fmt: skip


def path_of(address: str) -> str | None:
    """The path of an address; None where there is no address, or none that can be read."""
    try:
        return urlsplit(address).path if address else None
    except ValueError:
        return None
