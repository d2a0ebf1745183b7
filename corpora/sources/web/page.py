"""A page of HTML to its main text and what it says of itself.

Promises: a pure function of the page, its address, the day of its crawl and the limits: the same page gives the
same text whatever the process read before, on whatever day and with whatever hash seed. Navigation, comments,
captions and boilerplate are left out, and so is the headline, which is the title; paragraphs, headings and list items
are apart by a blank line, lines within them (`<br>`, `<pre>`) by one line end. A page that is too large, too deep or
has too many elements is `Refused` with the reason; what is read takes time in proportion to its length.
Costs: 3.6 ms for a page of 240,000 characters; on shared cores 5.5 ms a page, where resiliparse takes 3.6: a third for
its table, half for the rows and trees. Memory: the page, its table and its text.

What it finds is measured on 1,497 pages of seven kinds and on 299 of news, none of a domain that the forests were grown
on, in docs/guide-sources.md (`benchmarks/fit_blocks.py`): word F1 .875, of articles .960; of news, F1 of runs of four
words .962. On pieces of text that must and must not be found, from 123 more pages, it has an accuracy of .94.

The title of a page, without the name of its site.

Promises: a pure function of the page and its address. A page names itself in `<h1>`, in what it gives to be shared
and in `<title>`; the last two often end, and sometimes begin, with the name of the site. Each of these is a
candidate, and so is each run of their pieces between bars, dashes and colons. A forest that was grown on pages whose
titles people had noted (`benchmarks/fit_titles.py`) chooses, by where a candidate is, what is left out beside it, and
how it agrees with the others and with the address. No name of a site is in it.
Costs: 0.2 ms; a page that names itself in one way alone is not judged.

Measured on 1,497 pages of seven kinds and on 211 of news, none of a domain that the forest was grown on: equal but for
case and spaces on 79 % and 82 %; the first heading alone reaches 64 % of the former. For a thirtieth nothing in the
page is equal to what was noted. Where the one heading and `<title>` differ, on 541 pages, people noted the heading on
280, `<title>` without its site on 164, and something else on 97; so most of what is missed is a matter of taste.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Float32s, Int64s
from corpora.sources.formulas import show_rendered_tex
from corpora.sources.web.facts import (
    canonical_address,
    metas_of,
    page_language,
    page_license,
    published_day,
    split_address,
)
from corpora.sources.web.main_text.blocks import main_text, read_forest, sum_odds
from corpora.sources.web.main_text.features import HEADINGS
from corpora.sources.web.own_blocks import split_hidden, without_appended
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_page, unescape_html

FILE = Path(__file__).with_name("titles.npz")
BETWEEN = re.compile(r"(\s+[|\u2013\u2014\u00bb\u00ab\u00b7•:/\u203a>~-]\s+|\s*\|\s*)")
SIGNS, OTHER_SIGN = {"|": 1, "-": 2, "\u2013": 3, "\u2014": 3, ":": 4}, 5  # between pieces, as numbers
WORD = re.compile(r"\w+")
NO_LETTERS = re.compile(r"[\W_]+")
ANCHORS = "\u00b6# \t"  # signs of links to a heading itself, after it
NO_NAMES = frozenset("www com org net co uk io blog docs forum shop".split())  # labels of hosts
MOST_PIECES = 6
MOST_HEADINGS, MOST_TITLE = 10, 1_000  # headings, and characters of a title, that are looked at
NAME_WORDS, BAR_WORDS = 6, 4


class Given(NamedTuple):
    """What a page gives that may name it. names: those of its site, letters alone; address: its path."""

    title: str
    shared: str
    headings: list[str]
    names: set[str]
    address: str


class Cut(NamedTuple):
    """A run of pieces of a title: the first, their number, that of all, words before and after, and the sign after."""

    first: int = -1
    pieces: int = 0
    of: int = 0
    before: int = 0
    after: int = 0
    sign: int = 0


NO_CUT = Cut()


def page_title(tree: Tree, metas: dict[str, str], address: str) -> str | None:
    """A page's title; None if it says none."""
    given = what_is_given(tree, metas, address)
    if not given.shared and not given.headings:  # nothing says which piece of it is the name
        return without_site(given.title, given.names, []) or None
    found = candidates(given)
    if len(found) < 2:
        return next(iter(found), None)
    odds = sum_odds(read_forest("titles", FILE), describe_titles(given, found))
    return list(found)[int(np.argmax(odds))]


def what_is_given(tree: Tree, metas: dict[str, str], address: str) -> Given:
    """What a page gives that may name it."""
    texts = (_text(tree, tree.spans[element]) for element in tree.named("h1"))
    parts = split_address(address or metas.get("og:url", ""))
    host = (parts.hostname or "") if parts else ""
    named = (metas.get("og:site_name") or metas.get("application-name", ""), _longest_label(host))
    return Given(
        title=_spaced(tree.title),
        shared=_spaced(metas.get("og:title") or metas.get("twitter:title") or ""),
        headings=list(islice((text for text in texts if 0 < len(text) <= MOST_TITLE), MOST_HEADINGS)),
        names={name for name in map(_letters, named) if len(name) > 2},
        address=parts.path.rstrip("/") if parts else "",
    )


def candidates(given: Given) -> dict[str, list[Cut]]:
    """Every text that may be a page's title, with what it is of the title, of what is shared, and of a heading."""
    found: dict[str, list[Cut]] = {}
    for place, titles in enumerate(((given.title,), (given.shared,), given.headings)):
        for title in filter(None, titles):
            for text, cut in cuts_of(title):
                cuts = found.setdefault(text, [NO_CUT] * 3)
                cuts[place] = cut if cuts[place] is NO_CUT else cuts[place]
    return found


def cuts_of(title: str) -> Iterator[tuple[str, Cut]]:
    """Every run of a title's pieces that has letters, the whole first.

    >>> [text for text, _ in cuts_of("Rain - Ayr Post")]
    ['Rain - Ayr Post', 'Rain', 'Ayr Post']
    """
    pieces = BETWEEN.split(title, MOST_PIECES - 1)
    signs = [*(SIGNS.get(sign.strip(), OTHER_SIGN) for sign in pieces[1::2]), 0]
    words = [0, *accumulate(len(piece.split()) for piece in pieces[::2])]
    count = len(signs)
    for size in range(count, 0, -1):
        for first in range(count - size + 1):
            end = first + size
            text = "".join(pieces[2 * first : 2 * end - 1]).strip()
            if _letters(text):
                yield text, Cut(first, size, count, words[first], words[-1] - words[end], signs[end - 1])


def describe_titles(given: Given, found: dict[str, list[Cut]]) -> Float32s:
    """A row of numbers for each candidate."""
    plain = [without_site(title, given.names, given.headings) for title in (given.title, given.shared)]
    whole = (given.title, given.shared, *plain)
    sides, headings = [_words(text) for text in whole], list(map(_words, given.headings))
    others = [side for side in (*sides[:2], *headings[:3]) if side]
    slug = _words(given.address.rpartition("/")[2].replace("_", " "))
    plainest = max((_in_common(words, sides[3] or sides[2]) for words in headings), default=0.0)
    of_page = (plainest, len(given.headings), given.address.count("/"), len(slug), *map(len, whole))
    heading_letters = list(map(_letters, given.headings))
    rows = []
    for text, (of_title, of_shared, of_heading) in found.items():
        words, letters = _words(text), _letters(text)
        heads: list[float] = [text in given.headings and given.headings.index(text) + 1, letters in heading_letters]
        heads += [any(letters in other for other in heading_letters)]
        heads += [max((measure(words, other) for other in headings), default=-1.0) for measure in (_in_common, _held)]
        agrees = [_in_common(words, other) for other in sides]
        agrees += [share for other in (*sides[2:], slug) for share in (_held(words, other), _held(other, words))]
        agrees += [sum(_in_common(words, other) for other in others), text == plain[0], text == plain[1]]
        capitals = sum(word[:1].isupper() for word in text.split()) / len(text.split())
        rows.append(
            (*of_title, *of_shared, *of_heading[:2], *heads, *agrees, len(text), len(words), capitals, *of_page)
        )
    return np.array(rows, np.float32)


def without_site(title: str, names: set[str], headings: list[str]) -> str:
    """A title without the pieces at its ends that name the site. names: of the site, letters alone.

    >>> without_site("Rain in Ayr | The Ayr Post", {"theayrpost"}, [])
    'Rain in Ayr'
    """
    pieces = BETWEEN.split(title)
    while len(pieces) > 2:
        before = "".join(pieces[:-2])
        if _letters(before) and (_is_name(pieces[-1], names) or _is_last(pieces, before, headings)):
            pieces = pieces[:-2]
        elif _letters("".join(pieces[2:])) and _is_name(pieces[0], names):
            pieces = pieces[2:]
        else:
            break
    return "".join(pieces).strip()


def _is_name(piece: str, names: set[str]) -> bool:
    """Return True if a piece of a title is a name of the site, or holds one or is held by it, and is short."""
    letters = _letters(piece)
    if not letters or len(piece.split()) > NAME_WORDS:
        return False
    if len(letters) <= 3:
        return letters in names
    return any(letters in name or (len(name) > 3 and name in letters) for name in names)


def _is_last(pieces: list[str], before: str, headings: list[str]) -> bool:
    """Return True if a heading is what stands before the last piece, or that piece is short and behind a bar."""
    if any(_letters(heading) == _letters(before) for heading in headings):
        return True
    return "|" in pieces[-2] and len(pieces[-1].split()) <= BAR_WORDS and len(before) >= len(pieces[-1])


def _text(tree: Tree, span: Int64s) -> str:
    """The text of an element; "" for one that is much longer than a title, of which a page may have many in another."""
    first, last = span.tolist()
    texts = [block.text for block in tree.blocks[first : min(last, first + MOST_TITLE)]]
    if sum(map(len, texts)) > 2 * MOST_TITLE:
        return ""
    return " ".join(" ".join(texts).split()).rstrip(ANCHORS)


def _spaced(title: str) -> str:
    return " ".join(title[:MOST_TITLE].split())


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.casefold()))


def _in_common(left: frozenset[str], right: frozenset[str]) -> float:
    """The share of the words of two texts that both have."""
    both = len(left & right)
    return both / max(1, len(left) + len(right) - both)


def _held(left: frozenset[str], right: frozenset[str]) -> float:
    """The share of the words of a text that another has."""
    return len(left & right) / max(1, len(left))


def _letters(text: str) -> str:
    return NO_LETTERS.sub("", text).casefold()


def _longest_label(host: str) -> str:
    return max((label for label in host.split(".") if label not in NO_NAMES), key=len, default="")


LIMITS = PageLimits()
NO_TEXT = "no main text"
NEEDS_SCRIPTS = "needs scripts"
ARTICLE_BODY = re.compile(r'"articleBody"\s*:\s*"((?:[^"\\]|\\.)*+)"')
MARKUP = re.compile(r"<[^<>]*>")
LEAST_DATA = 200  # characters of an article in JSON-LD
LEAST_OF_DATA = 0.5  # the share of it below which what was found in the page gives way to it
SHELL = 300  # characters of text at most in a page that its scripts are to fill


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """The content of a page.

    whole:        the chance that the text is the page's main text, nine tenths of it and hardly more, in hundredths
    date:         of publication, YYYY-MM-DD
    license:      the address of the license it links to
    language:     the primary subtag of the language it says it is in, in small letters
    canonical:    the address that it calls its own
    hidden:       blocks that were left out because the page does not show them
    num_replaced: characters of its bytes that could not be decoded
    """

    text: str
    whole: float | None = None
    title: str | None = None
    date: str | None = None
    license: str | None = None
    language: str | None = None
    canonical: str | None = None
    hidden: int = 0
    num_replaced: int = 0


def extract_page(html: str, url: str, last_day: str, limits: PageLimits = LIMITS) -> WebPage | Refused:
    """The main text of a page and what is said of it, or why there is none.

    last_day: YYYY-MM-DD, of the crawl; a date after it is not the page's
    """
    tree = parse_page(html, limits)
    if isinstance(tree, Refused):
        return tree
    metas = metas_of(tree)
    main = main_text(tree, url, metas)
    title = page_title(tree, metas, url)
    canonical = canonical_address(tree, metas, url)
    shown, num_hidden = split_hidden(tree, without_appended(tree, main.blocks, canonical or url))
    blocks = [block for block in map(without_permalink, shown) if block.text]
    text = show_rendered_tex("\n\n".join(block.text for block in without_headline(blocks, title)), html)
    if len(text) < LEAST_OF_DATA * len(data := data_text(tree.scripts)):
        text = data
    if not text:
        return Refused(NEEDS_SCRIPTS if needs_scripts(tree, html) else NO_TEXT)
    return WebPage(
        text=text,
        whole=round(main.whole, 2),
        title=title,
        date=published_day(tree, metas, url, last_day),
        license=page_license(tree),
        language=page_language(tree, metas),
        canonical=canonical,
        hidden=num_hidden,
    )


def without_permalink(block: Block) -> Block:
    """A block without the sign at its end that links to the block itself, as headings of documentation have."""
    sign = block.text[-1:]
    linked = block.links > 0 if sign in ("¶", "\uf0c1") else sign == "#" and block.links == 1
    return block._replace(text=block.text[:-1].rstrip()) if linked else block


def without_headline(blocks: list[Block], title: str | None) -> list[Block]:
    """The blocks without a heading that says the title again, where there are others."""
    told = " ".join((title or "").split()).casefold()
    others = [block for block in blocks if block.tag not in HEADINGS or " ".join(block.text.split()).casefold() != told]
    return others or blocks


def data_text(scripts: list[str]) -> str:
    """The longest text of an article that a page's JSON-LD holds, line by line; "" if there is none worth it."""
    bodies = (match[1] for script in scripts for match in ARTICLE_BODY.finditer(script))
    longest = max(bodies, key=len, default="")
    try:
        text = json.loads(f'"{longest}"', strict=False) if len(longest) > LEAST_DATA else ""
    except ValueError:
        return ""
    return paragraphs(unescape_html(MARKUP.sub(" ", text)))


def needs_scripts(tree: Tree, html: str) -> bool:
    """Return True for a page that has scripts, and hardly a text before they run."""
    return sum(len(block.text) for block in tree.blocks) <= SHELL and "<script" in html.lower()


def paragraphs(text: str) -> str:
    r"""Lines, each of them a block of the page, as paragraphs.

    >>> paragraphs("Heading\nFirst line.\n\n - item")
    'Heading\n\nFirst line.\n\n- item'
    """
    return "\n\n".join(line for line in map(str.strip, text.splitlines()) if line)
