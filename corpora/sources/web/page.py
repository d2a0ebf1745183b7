"""Turns a page of HTML into its main text and what it says about itself.

Promises: a pure function of the page, its address, the day of its crawl and the limits: the same page gives the same
text whatever the process read before, on whatever day and with whatever hash seed. Navigation, comments, captions and
boilerplate are left out, and so is the headline, which is the title. Paragraphs, headings and list items are separated
by a blank line, lines within them (`<br>`, `<pre>`) by a line feed. A page that is too large, too deep or has too many
elements is `Refused` with the reason; reading takes time in proportion to the page's length. Costs: 3.6 ms for a page
of 240,000 characters; on shared cores 5.5 ms a page, while resiliparse takes 3.6: a third for its table, half for the
rows and trees. Memory: the page, its table and its text.

What it finds is measured on 1,497 pages of seven kinds and on 299 of news, none of a domain that the forests were grown
on, in docs/log.md (`benchmarks/fit_blocks.py`): word F1 .875, of articles .960; of news, F1 of runs of four
words .962. On pieces of text that must and must not be found, from 123 more pages, it has an accuracy of .94.

The title is found without the name of the site. A page names itself in `<h1>`, in what it gives to be shared (Open
Graph) and in `<title>`; the last two often end, and sometimes begin, with the name of the site. Each of these is a
candidate, and so is each run of their pieces between bars, dashes and colons. A forest that was grown on pages with
titles that people had noted (`benchmarks/fit_titles.py`) chooses, by the position of a candidate, by what is left out
next to it, and how it agrees with the others and with the address. No name of a site is in it. Costs: 0.2 ms; if there
is only one candidate, nothing is judged.

Measured on 1,497 pages of seven kinds and on 211 of news, none of a domain that the forest was grown on: except for
case and spaces, 79 % and 82 % are equal; to take the first heading reaches 64 % of the former. For a thirtieth nothing
in the page is equal to what was noted. On 541 pages the one heading and `<title>` differ: people noted the heading on
280, `<title>` without its site on 164, and something else on 97; so most misses are a matter of taste.
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
    collect_metas,
    find_canonical_address,
    find_language,
    find_license_address,
    find_published_day,
    split_address,
)
from corpora.sources.web.main_text.blocks import choose_main_text, compute_odds, read_forest
from corpora.sources.web.main_text.features import HEADINGS
from corpora.sources.web.own_blocks import split_hidden, without_appended
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_html, unescape_html

TITLE_FOREST_FILE = Path(__file__).with_name("titles.npz")
SEPARATOR = re.compile(r"(\s+[|\u2013\u2014\u00bb\u00ab\u00b7•:/\u203a>~-]\s+|\s*\|\s*)")
SEPARATOR_NUMBERS, OTHER_SEPARATOR = {"|": 1, "-": 2, "\u2013": 3, "\u2014": 3, ":": 4}, 5  # between pieces, as numbers
WORD = re.compile(r"\w+")
NO_LETTERS = re.compile(r"[\W_]+")
ANCHOR_SIGNS = "\u00b6# \t"  # signs of links to a heading itself, after it
GENERIC_LABELS = frozenset("www com org net co uk io blog docs forum shop".split())  # labels of hosts
MAX_PIECES = 6
MAX_HEADINGS, MAX_TITLE_CHARACTERS = 10, 1_000  # headings, and characters of a title, that are looked at
MAX_NAME_WORDS, MAX_WORDS_AFTER_BAR = 6, 4


class TitleSources(NamedTuple):
    """The parts of a page in which its title may be found.

    Attributes:
        title: Text of `<title>`.
        shared: The title for sharing, such as `og:title`; "" if there is none.
        headings: Texts of the `<h1>` elements.
        names: Names of the site, reduced to lower-case letters and digits.
        address: Path of the page's URL.
    """

    title: str
    shared: str
    headings: list[str]
    names: set[str]
    address: str


class TitleCut(NamedTuple):
    """A run of consecutive pieces of a title. Pieces are divided by separators such as "|".

    Attributes:
        first: Index of the first piece; -1 if there is no run.
        pieces: Number of pieces in the run.
        of: Total number of pieces in the title.
        before: Number of words before the run.
        after: Number of words after the run.
        sign: Code of the separator after the run (see `SEPARATOR_NUMBERS`); 0 at the end of the title.
    """

    first: int = -1
    pieces: int = 0
    of: int = 0
    before: int = 0
    after: int = 0
    sign: int = 0


NO_CUT = TitleCut()


def choose_title(tree: Tree, metas: dict[str, str], address: str) -> str | None:
    """Return the title of a page without the name of the site; None if it has none.

    Args:
        tree: The page.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        address: URL of the page; "" if unknown.
    """
    sources = collect_title_sources(tree, metas, address)
    if not sources.shared and not sources.headings:  # nothing says which piece of it is the name
        return without_site(sources.title, sources.names, []) or None
    found = list_candidates(sources)
    if len(found) < 2:
        return next(iter(found), None)
    odds = compute_odds(read_forest("titles", TITLE_FOREST_FILE), describe_titles(sources, found))
    return list(found)[int(np.argmax(odds))]


def collect_title_sources(tree: Tree, metas: dict[str, str], address: str) -> TitleSources:
    """Collect the parts of a page in which its title may be found, with single spaces.

    Args:
        tree: The page.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        address: URL of the page; "" if unknown.
    """
    texts = (_get_text(tree, tree.spans[element]) for element in tree.find_elements("h1"))
    parts = split_address(address or metas.get("og:url", ""))
    host = (parts.hostname or "") if parts else ""
    site_names = (metas.get("og:site_name") or metas.get("application-name", ""), _find_longest_label(host))
    return TitleSources(
        title=_clean_spaces(tree.title),
        shared=_clean_spaces(metas.get("og:title") or metas.get("twitter:title") or ""),
        headings=list(islice((text for text in texts if 0 < len(text) <= MAX_TITLE_CHARACTERS), MAX_HEADINGS)),
        names={name for name in map(_keep_letters, site_names) if len(name) > 2},
        address=parts.path.rstrip("/") if parts else "",
    )


def list_candidates(sources: TitleSources) -> dict[str, list[TitleCut]]:
    """List every string that may be the title of a page.

    Returns:
        A dictionary that maps each string to three cuts. They tell which pieces of `<title>`, of the title for sharing,
        and of a heading form the string, in this order. A cut is `NO_CUT` if the string is not part of that source.
    """
    found: dict[str, list[TitleCut]] = {}
    for source, titles in enumerate(((sources.title,), (sources.shared,), sources.headings)):
        for title in filter(None, titles):
            for text, cut in iter_cuts(title):
                cuts = found.setdefault(text, [NO_CUT] * 3)
                cuts[source] = cut if cuts[source] is NO_CUT else cuts[source]
    return found


def iter_cuts(title: str) -> Iterator[tuple[str, TitleCut]]:
    """Yield every run of a title's pieces that contains letters, the longest first, as (string, cut).

    >>> [text for text, _ in iter_cuts("Rain - Ayr Post")]
    ['Rain - Ayr Post', 'Rain', 'Ayr Post']
    """
    pieces = SEPARATOR.split(title, MAX_PIECES - 1)
    signs = [*(SEPARATOR_NUMBERS.get(sign.strip(), OTHER_SEPARATOR) for sign in pieces[1::2]), 0]
    words = [0, *accumulate(len(piece.split()) for piece in pieces[::2])]
    count = len(signs)
    for size in range(count, 0, -1):
        for first in range(count - size + 1):
            end = first + size
            text = "".join(pieces[2 * first : 2 * end - 1]).strip()
            if _keep_letters(text):
                yield text, TitleCut(first, size, count, words[first], words[-1] - words[end], signs[end - 1])


def describe_titles(sources: TitleSources, found: dict[str, list[TitleCut]]) -> Float32s:
    """Compute the features of title candidates for the forest (decision trees) that chooses among them.

    Args:
        sources: The parts of the page.
        found: The candidates, as returned by `list_candidates`.

    Returns:
        A float32 array with one row per candidate, in the order of `found`.
    """
    bare = [without_site(title, sources.names, sources.headings) for title in (sources.title, sources.shared)]
    all_titles = (sources.title, sources.shared, *bare)
    sides, headings = [_split_words(text) for text in all_titles], list(map(_split_words, sources.headings))
    others = [side for side in (*sides[:2], *headings[:3]) if side]
    slug = _split_words(sources.address.rpartition("/")[2].replace("_", " "))
    best_overlap = max((_overlap(words, sides[3] or sides[2]) for words in headings), default=0.0)
    page_columns = (best_overlap, len(sources.headings), sources.address.count("/"), len(slug), *map(len, all_titles))
    heading_letters = list(map(_keep_letters, sources.headings))
    rows = []
    for text, (of_title, of_shared, of_heading) in found.items():
        words, letters = _split_words(text), _keep_letters(text)
        row: list[float] = [*of_title, *of_shared, *of_heading[:2]]
        row += [text in sources.headings and sources.headings.index(text) + 1, letters in heading_letters]
        row += [any(letters in other for other in heading_letters)]
        row += [max((compare(words, other) for other in headings), default=-1.0) for compare in (_overlap, _share)]
        row += [_overlap(words, other) for other in sides]
        row += [share for other in (*sides[2:], slug) for share in (_share(words, other), _share(other, words))]
        row += [sum(_overlap(words, other) for other in others), text == bare[0], text == bare[1]]
        capitals = sum(word[:1].isupper() for word in text.split()) / len(text.split())
        rows.append((*row, len(text), len(words), capitals, *page_columns))
    return np.array(rows, np.float32)


def without_site(title: str, names: set[str], headings: list[str]) -> str:
    """Strip the site's name from both ends of a title.

    Args:
        title: The title.
        names: Names of the site, reduced to lower-case letters and digits.
        headings: Headings of the page. If the text before the last piece equals a heading, it becomes the title.

    >>> without_site("Rain in Ayr | The Ayr Post", {"theayrpost"}, [])
    'Rain in Ayr'
    """
    pieces = SEPARATOR.split(title)
    while len(pieces) > 2:
        rest = "".join(pieces[:-2])
        if _keep_letters(rest) and (_is_name(pieces[-1], names) or _is_site_piece(pieces, rest, headings)):
            pieces = pieces[:-2]
        elif _keep_letters("".join(pieces[2:])) and _is_name(pieces[0], names):
            pieces = pieces[2:]
        else:
            break
    return "".join(pieces).strip()


def _is_name(piece: str, names: set[str]) -> bool:
    """Return True if a piece of a title is short and equals, contains or is contained in a name of the site.

    `names` contains the site's names, reduced to lower-case letters and digits.
    """
    letters = _keep_letters(piece)
    if not letters or len(piece.split()) > MAX_NAME_WORDS:
        return False
    if len(letters) <= 3:
        return letters in names
    return any(letters in name or (len(name) > 3 and name in letters) for name in names)


def _is_site_piece(pieces: list[str], rest: str, headings: list[str]) -> bool:
    """Return True if the last piece of a title seems to be the name of the site.

    This is the case if a heading equals the text before it, or if the piece is short and follows a vertical bar.

    Args:
        pieces: The pieces of the title, alternating with the separators between them.
        rest: The title before the last separator.
        headings: Headings of the page.
    """
    if any(_keep_letters(heading) == _keep_letters(rest) for heading in headings):
        return True
    return "|" in pieces[-2] and len(pieces[-1].split()) <= MAX_WORDS_AFTER_BAR and len(rest) >= len(pieces[-1])


def _get_text(tree: Tree, span: Int64s) -> str:
    """Return the text of the blocks from span[0] up to, but not including, span[1], on one line.

    Return "" if the text is much longer than a title.
    """
    first, last = span.tolist()
    texts = [block.text for block in tree.blocks[first : min(last, first + MAX_TITLE_CHARACTERS)]]
    if sum(map(len, texts)) > 2 * MAX_TITLE_CHARACTERS:
        return ""
    return " ".join(" ".join(texts).split()).rstrip(ANCHOR_SIGNS)


def _clean_spaces(title: str) -> str:
    """Return the first 1,000 characters of a title with single spaces."""
    return " ".join(title[:MAX_TITLE_CHARACTERS].split())


def _split_words(text: str) -> frozenset[str]:
    """Return the set of a text's words in lower case."""
    return frozenset(WORD.findall(text.casefold()))


def _overlap(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the fraction of the words of two sets that they have in common, from 0 to 1."""
    both = len(left & right)
    return both / max(1, len(left) + len(right) - both)


def _share(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the fraction of the left set's words that are also in the right set, from 0 to 1."""
    return len(left & right) / max(1, len(left))


def _keep_letters(text: str) -> str:
    """Return only the letters and digits of a text, in lower case."""
    return NO_LETTERS.sub("", text).casefold()


def _find_longest_label(host: str) -> str:
    """Return the longest label of a host that may name the site, such as "example" for "www.example.org".

    Return "" if there is none.
    """
    return max((label for label in host.split(".") if label not in GENERIC_LABELS), key=len, default="")


LIMITS = PageLimits()
NO_TEXT = "no main text"
NEEDS_SCRIPTS = "needs scripts"
ARTICLE_BODY = re.compile(r'"articleBody"\s*:\s*"((?:[^"\\]|\\.)*+)"')
MARKUP = re.compile(r"<[^<>]*>")
MIN_DATA_CHARACTERS = 200  # characters of an article in JSON-LD
MIN_SHARE_OF_DATA = 0.5  # the share of it below which what was found in the page gives way to it
MAX_SHELL_CHARACTERS = 300  # characters of text at most in a page that its scripts are to fill


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """The content extracted from a page.

    Attributes:
        text: The main text.
        whole: The probability that the text is complete (nine tenths of the page's main text, and hardly anything
            else), rounded to two decimals; None if unknown.
        title: The title.
        date: Day of publication, YYYY-MM-DD.
        license: URL of the license that the page links to.
        language: Primary subtag of the declared language, in lower case.
        canonical: The canonical URL that the page declares.
        hidden: Number of blocks that were omitted because they are hidden.
        num_replaced: Number of replacement characters inserted for bytes that could not be decoded.
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
    """Extract the main text and the metadata of a page.

    Args:
        html: The page, decoded.
        url: URL of the page; "" if unknown.
        last_day: Day of the crawl, YYYY-MM-DD. A later day is not accepted as the day of publication.
        limits: Size limits of the page.

    Returns:
        The page, or `Refused` with the reason if it exceeds a limit, has no main text or needs scripts.
    """
    tree = parse_html(html, limits)
    if isinstance(tree, Refused):
        return tree
    metas = collect_metas(tree)
    main = choose_main_text(tree, url, metas)
    title = choose_title(tree, metas, url)
    canonical = find_canonical_address(tree, metas, url)
    shown, num_hidden = split_hidden(tree, without_appended(tree, main.blocks, canonical or url))
    blocks = [block for block in map(without_permalink, shown) if block.text]
    text = show_rendered_tex("\n\n".join(block.text for block in without_headline(blocks, title)), html)
    if len(text) < MIN_SHARE_OF_DATA * len(data := extract_data_text(tree.scripts)):
        text = data
    if not text:
        return Refused(NEEDS_SCRIPTS if needs_scripts(tree, html) else NO_TEXT)
    return WebPage(
        text=text,
        whole=round(main.whole, 2),
        title=title,
        date=find_published_day(tree, metas, url, last_day),
        license=find_license_address(tree),
        language=find_language(tree, metas),
        canonical=canonical,
        hidden=num_hidden,
    )


def without_permalink(block: Block) -> Block:
    """Remove the permalink sign from the end of a block, if there is one, as after headings in documentation."""
    sign = block.text[-1:]
    is_permalink = block.links > 0 if sign in ("¶", "\uf0c1") else sign == "#" and block.links == 1
    return block._replace(text=block.text[:-1].rstrip()) if is_permalink else block


def without_headline(blocks: list[Block], title: str | None) -> list[Block]:
    """Return the blocks without headings that repeat the title; all blocks if nothing else would be left."""
    told = " ".join((title or "").split()).casefold()
    others = [block for block in blocks if block.tag not in HEADINGS or " ".join(block.text.split()).casefold() != told]
    return others or blocks


def extract_data_text(scripts: list[str]) -> str:
    """Return the longest article text in a page's JSON-LD, as paragraphs; "" if it is short or invalid.

    Args:
        scripts: Contents of the page's JSON-LD scripts.
    """
    bodies = (match[1] for script in scripts for match in ARTICLE_BODY.finditer(script))
    longest = max(bodies, key=len, default="")
    try:
        text = json.loads(f'"{longest}"', strict=False) if len(longest) > MIN_DATA_CHARACTERS else ""
    except ValueError:
        return ""
    return split_paragraphs(unescape_html(MARKUP.sub(" ", text)))


def needs_scripts(tree: Tree, html: str) -> bool:
    """Return True if a page has scripts and hardly any text that is visible before they run.

    Args:
        tree: The parsed page.
        html: The page.
    """
    return sum(len(block.text) for block in tree.blocks) <= MAX_SHELL_CHARACTERS and "<script" in html.lower()


def split_paragraphs(text: str) -> str:
    r"""Convert a text with one block of a page per line to paragraphs that are separated by a blank line.

    >>> split_paragraphs("Heading\nFirst line.\n\n - item")
    'Heading\n\nFirst line.\n\n- item'
    """
    return "\n\n".join(line for line in map(str.strip, text.splitlines()) if line)
