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
"""

import json
import re
from dataclasses import dataclass

from corpora.sources.formulas import show_drawn
from corpora.sources.web.facts import (
    canonical_address,
    metas_of,
    page_language,
    page_license,
    published_day,
)
from corpora.sources.web.main_text.blocks import main_text
from corpora.sources.web.main_text.features import HEADINGS
from corpora.sources.web.own_blocks import split_hidden, without_appended
from corpora.sources.web.titles import page_title
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_page, unescaped

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
    text = show_drawn("\n\n".join(block.text for block in without_headline(blocks, title)), html)
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
    """The longest text of an article that a page's JSON-LD holds, line by line; "" where there is none worth it."""
    bodies = (match[1] for script in scripts for match in ARTICLE_BODY.finditer(script))
    longest = max(bodies, key=len, default="")
    try:
        text = json.loads(f'"{longest}"', strict=False) if len(longest) > LEAST_DATA else ""
    except ValueError:
        return ""
    return paragraphs(unescaped(MARKUP.sub(" ", text)))


def needs_scripts(tree: Tree, html: str) -> bool:
    """Return True for a page that has scripts, and hardly a text before they run."""
    return sum(len(block.text) for block in tree.blocks) <= SHELL and "<script" in html.lower()


def paragraphs(text: str) -> str:
    r"""Lines, each of them a block of the page, as paragraphs.

    >>> paragraphs("Heading\nFirst line.\n\n - item")
    'Heading\n\nFirst line.\n\n- item'
    """
    return "\n\n".join(line for line in map(str.strip, text.splitlines()) if line)
