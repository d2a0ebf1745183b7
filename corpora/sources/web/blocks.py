"""Chooses the blocks of a page that are its main text.

Promises: a pure function of the page's table, in floating point with nothing but products, roots and exactly rounded
sums, so the same on every machine. Each block gets the logarithm of the odds that it is main text: a sum of weights of
what its text looks like and of what the markup around it says (`marks`). Blocks outside the smallest element that
holds nearly all that is gained need better odds. Where hardly anything is found the odds of all blocks are raised
together, so a page of an unknown design still gives what is most like text. A block that repeats an earlier one is
left out.
Costs: 4 ms for a page of 160 kB in 180 blocks.

The weights are a logistic regression's with a ridge penalty, of 231 pages whose text people or tests had marked, each
page of the same weight and each block by the 0.8th power of its length. By hand afterwards, where few pages show it:
comments, captions, rows of links, what is not shown, consent forms and roles speak against a text more strongly;
`short opening`, `headline` and `short cell` are not fitted, `in table` and `cell` say nothing. The script of that fit
and how it labelled a block were not kept, so these very weights cannot be fitted again. `benchmarks/fit_blocks.py` fits
by a rule of its own, which comes near them, and measures each weight against its neighbors; `benchmarks/pages.py`
measures what all of them reach.

Source: a block's odds by shallow features is the idea of Kohlschütter, Fankhauser and Nejdl, WSDM 2010.
"""

import json
import re
from html import unescape
from math import fsum, sqrt
from operator import mul

from corpora.sources.web.marks import BIT, MARKS, marks_of
from corpora.sources.web.tree import Block, Tree

TERMINAL = frozenset(".!?\u2026\u3002\uff01\uff1f:;,\"\u201d\u00bb\u2019')]")
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
CELLS = frozenset(("td", "th", "tr", "table", "tbody"))
KINDS = {
    "p": "p",
    **dict.fromkeys(HEADINGS, "heading"),
    "li": "item",
    **dict.fromkeys(CELLS, "cell"),
    "blockquote": "quote",
    "pre": "pre",
    **dict.fromkeys(("div", "section", "article", "body", "main"), "box"),
    **dict.fromkeys(("dt", "dd", "caption", "label", "button", "address", "summary"), "term"),
    "figcaption": "caption",
}
OPENING = re.compile(
    r"\W*(?:read (?:more|also|next|the full)|see also|also read|related|more (?:from|on|stories|:)|recommended|share|"
    r"follow|subscribe|sign up|click here|advertis|photo|image|getty|file photo|video|watch|listen|comments?|leave a|"
    r"copyright|all rights|©|posted|published|updated|last (?:updated|modified)|by\b|from\b|tags?\b|topics?|categor|"
    r"source|print|email|tweet|facebook|newsletter|get (?:the|our)|join|download|contact|about|view|continue|"
    r"reporting by|editing by|also\b|mehr|lesen|weiter|czytaj|więcej|zobacz|leggi|mire|lee\b|lees|ver m[aá]s|veja|"
    r"voir|articles?\b|artikel|teilen|drucken|kommentare?|kontakt|impressum|datenschutz|quelle|autor|von\b|par\b|por\b|"
    r"auch interessant|anzeige|foto|bild|lire|à lire|photos?|partager|leia|lea|fotos?|log ?in|register|sponsored|"
    r"don't miss|trending|popular|top stories|next|previous|this (?:article|story|content)|we use|cookie|support|"
    r"donate|story continues|skip|back to|follow us|read:|more:)\b",
    re.IGNORECASE,
)
ERRANDS = (
    "subscri", "newsletter", "sign up", "signed up", "click here", "follow us", "follow me", "follow @", " on twitter",
    " on facebook", " on instagram", "all rights reserved", "download the", "download our", "our app", "privacy policy",
    "cookie", "log in", "logged in", "terms of", "more information", "read more", "email", "e-mail", "abonn", "anmeld",
    "affiliate", "sponsor", "advertis", "http://", "https://", "www.", "first appeared", "originally published",
    "contributed to", "correction", "editor's note", "editor\u2019s note", "getty", "reuters", "photo", "courtesy",
    "credit", "shutterstock", "image:", "(ap", "afp",
)  # fmt: skip
# What a block looks like, and what each says: the logarithm of an odds ratio.
FEATURES = {
    "length": 0.56, "linked": -0.88, "mostly linked": -0.92, "all linked": -1.94, "ends": 0.59, "upper": -1.46,
    "opening": -1.48, "errand": -0.35, "copyright": -1.56, "siblings": 0.48, "with parent": 2.17,
    "with grandparent": 1.09, "in title": -0.8, "said before": -2.66, "in data": 1.7, "not in data": -0.29,
    "digits": -1.68, "place": -1.93, "begins small": 0.71, "lines": 0.53, "capital link": -0.82,
    "short opening": -2.5, "headline": -4.0, "short cell": -2.5, "p": -0.41, "heading": -0.19, "item": 0.81,
    "cell": 0.0,
    "quote": -0.97, "pre": 2.41, "box": -0.73, "term": -0.04, "caption": -1.66,
}  # fmt: skip
# The same of the marks around it.
MARK_WEIGHTS = {
    "comment": -4.97, "share": -0.43, "related": -0.58, "ad": -1.21, "menu": -0.79, "foot": -1.4, "head": -1.4,
    "byline": -1.72, "signup": -1.2, "caption": -0.06, "side": -1.36, "tags": -1.15, "unseen": -1.08, "body": 0.65,
    "lead": 0.13, "under": -1.28, "blurb": -2.03, "article": 0.26, "quoted": 0.55, "in nav": -0.42,
    "in footer": -1.09, "in aside": -1.08, "in header": -0.56, "in figure": -1.01, "in form": -1.46,
    "in table": 0.0, "in article": 0.74, "in main": 0.58, "in quote": 3.51, "in list": -0.57, "in address": -1.67,
    "in h1": -1.71, "item body": -0.25, "role": -1.6, "not shown": -2.83,
}  # fmt: skip
SHORT_BYLINE = -2.5  # a name or a date, no sentence; set by hand
BIAS = -0.75
KIND_NAMES = tuple(dict.fromkeys(KINDS.values()))
KIND_ROWS = {kind: tuple(float(kind == name) for name in KIND_NAMES) for kind in KIND_NAMES}
NO_KIND = (0.0,) * len(KIND_NAMES)
WEIGHTS = tuple(FEATURES.values())

# How the odds of single blocks become one text.
OUTSIDE = 1.0
GAINED = 0.97  # the share of all gain that the smallest element of the main text holds
MOST_GAIN = 4.0  # of one block
LEAST_TEXT = 200  # characters; less is found in a page only where raising the odds finds no more
RAISES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
REPEATED = 40  # characters from which on a block that was there before is left out

ARTICLE_BODY = re.compile(r'"articleBody"\s*:\s*"((?:[^"\\]|\\.)*+)"')
MARKUP = re.compile(r"<[^<>]*>")


def main_blocks(tree: Tree) -> list[Block]:
    """The blocks of a page that are its main text, in their order."""
    return choose_blocks(tree, block_odds(tree))


def choose_blocks(tree: Tree, odds: list[float]) -> list[Block]:
    """The blocks that make one text, by the odds of each."""
    raised = _raise(tree, odds)
    odds = [value + raised for value in odds]
    first, last = _holder(tree, odds)
    kept: list[Block] = []
    kept_texts: set[str] = set()
    for place, (block, value) in enumerate(zip(tree.blocks, odds, strict=True)):
        if value <= (0 if first <= place < last else OUTSIDE):
            continue
        if len(block.text) > REPEATED:
            if block.text in kept_texts:
                continue
            kept_texts.add(block.text)
        kept.append(block)
    return kept


def _raise(tree: Tree, odds: list[float]) -> float:
    """By how much the odds of all blocks are raised: as little as gives a text, not at all where nothing does."""
    for raised in RAISES:
        good = (len(block.text) for block, value in zip(tree.blocks, odds, strict=True) if value > -raised)
        if sum(good) >= LEAST_TEXT:
            return raised
    return 0.0


def block_odds(tree: Tree) -> list[float]:
    """Return the logarithm of the odds that a block is main text, for every block."""
    rows, marks = describe(tree)
    weight_of: dict[int, float] = {}
    odds = []
    for block, row, mark in zip(tree.blocks, rows, marks, strict=True):
        weight = weight_of.get(mark)
        if weight is None:
            weight = weight_of[mark] = fsum((BIAS, *(MARK_WEIGHTS[name] for name in MARKS if mark & BIT[name])))
        signed = mark & BIT["byline"] and len(block.text) < 60 and block.text[-1] not in ".!?"
        odds.append(fsum((weight, SHORT_BYLINE if signed else 0.0, *map(mul, WEIGHTS, row))))
    return odds


def describe(tree: Tree) -> tuple[list[tuple[float, ...]], list[int]]:
    """(of every block the values of `FEATURES`; its marks)."""
    marks, before = marks_of(tree)
    parents = [max(tree.parents[block.node], 0) for block in tree.blocks]
    grandparents = [max(tree.parents[parent], 0) for parent in parents]
    siblings: dict[int, int] = {}
    gathered: dict[int, int] = {}
    further: dict[int, int] = {}
    for block, parent, grandparent in zip(tree.blocks, parents, grandparents, strict=True):
        size = len(block.text)
        if block.tag == "p" or size > 80:
            siblings[parent] = siblings.get(parent, 0) + 1
        if size > 40 and block.links < 0.4 * size:
            gathered[parent] = gathered.get(parent, 0) + size
            further[grandparent] = further.get(grandparent, 0) + size
    total = before[-1] or 1
    title = " ".join(tree.title.split()).lower()
    data = data_text(tree.scripts)
    earlier_texts: set[str] = set()
    rows = []
    for place, (block, parent, grandparent) in enumerate(zip(tree.blocks, parents, grandparents, strict=True)):
        around = (
            sqrt(min(siblings.get(parent, 0), 32)),
            min(gathered.get(parent, 0) / total, 1.0),
            min(further.get(grandparent, 0) / total, 1.0),
        )
        rows.append(_row(block, around, title, data, block.text in earlier_texts, place / len(tree.blocks)))
        if len(block.text) > 20:
            earlier_texts.add(block.text)
    return rows, [marks[block.node] for block in tree.blocks]


def _row(
    block: Block, around: tuple[float, float, float], title: str, data: str, repeated: bool, place: float
) -> tuple[float, ...]:
    """Return the values of `FEATURES` of one block."""
    text, size = block.text, len(block.text)
    linked = block.links / size
    head, lowered = text[:100], text[:300].lower()
    opening = OPENING.match(text) is not None
    capital = linked > 0.8 and text.upper() == text
    in_data = size > 15 and bool(data) and text[:80] in data
    return (
        min(size, 200) / 200,
        linked,
        float(linked > 0.5),
        float(linked > 0.8),
        float(text[-1] in TERMINAL),
        sum(map(str.isupper, head)) / len(head),
        float(opening),
        float(size < 300 and any(map(lowered.__contains__, ERRANDS))),
        float("©" in text or "opyright" in text),
        *around,
        float(10 < size < 300 and lowered in title),
        float(repeated),
        float(in_data),
        float(size > 15 and bool(data) and not in_data),
        sum(map(str.isdigit, head)) / len(head),
        place,
        float(text[0].islower()),
        float("\n" in text),
        float(capital),
        float(opening and size < 60 and text[-1] not in ".!?"),
        float(10 < size < 300 and block.tag in HEADINGS and lowered in title),
        float(size < 60 and block.tag in CELLS and text[-1] not in ".!?"),
        *KIND_ROWS.get(KINDS.get(block.tag, ""), NO_KIND),
    )


def data_text(scripts: list[str]) -> str:
    """The longest text of an article that a page's JSON-LD holds, on one line; "" where there is none worth it."""
    longest = ""
    for script in scripts:
        for match in ARTICLE_BODY.finditer(script):
            if len(match[1]) > max(len(longest), 200):
                longest = match[1]
    try:
        text = json.loads(f'"{longest}"', strict=False)
    except ValueError:
        return ""
    return " ".join(MARKUP.sub(" ", unescape(text)).split())


def _holder(tree: Tree, odds: list[float]) -> tuple[int, int]:
    """The blocks of the smallest element that holds `GAINED` of what all blocks with good odds give."""
    sums = [0.0]
    for block, value in zip(tree.blocks, odds, strict=True):
        sums.append(sums[-1] + max(0.0, min(MOST_GAIN, value)) * sqrt(min(len(block.text), 400)))
    wanted = GAINED * sums[-1]
    best, fewest = (0, len(tree.blocks)), len(tree.blocks)
    for first, last in tree.spans:
        if first < last and last - first <= fewest and sums[last] - sums[first] >= wanted:
            best, fewest = (first, last), last - first
    return best
