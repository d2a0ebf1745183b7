"""Wikitext, step 2: links, and what a reader sees of them.

Promise: a link shows its label or its target; files, categories and links between languages show nothing. The
patterns match links without links inside, so that the innermost fall first.
Cost: most links of an article are plain ones; `split` takes their labels out without a call for each.

Source: mediawiki.org/wiki/Help:Links and Help:Images, and the namespaces of the larger Wikipedias.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from corpora.sources.wiki.wikitext.wikis import list_hidden_namespaces

DROPPED_NAMESPACES = list_hidden_namespaces()
_PLAIN_LINK = re.compile(r"\[\[(?:[^\[\]{}|:\n]*+\|)?([^\[\]{}|:\n]++)\]\]")
_LINK = re.compile(r"\[\[([^\[\]{}]*+(?:(?:\[(?!\[)|\](?!\]))[^\[\]{}]*+)*+)\]\]")
_LOOSE_LINK = re.compile(r"\[\[([^\[\]]*+(?:(?:\[(?!\[)|\](?!\]))[^\[\]]*+)*+)\]\]")
_EXTERNAL_LINK = re.compile(r"(?i)\[(?:(?:https?:|ftps?:|irc:)?//|mailto:|news:)[^\s\[\]<>|]*+([^\[\]\n]*+)\]")
_FILE = re.compile(r"(?i)\.(?:jpe?g|png|svg|gif|tiff?|webp|og[gav]|webm|djvu|midi?)$")
_LANGUAGE_PREFIX = re.compile(r"(?:[a-z]{2,3}|simple|commons|species|meta)(?:-[a-z]+)*")


@lru_cache(maxsize=64)
def _build_reader(hidden: frozenset[str]) -> Callable[[re.Match[str]], str]:
    """Return `_show_link` with the hidden namespaces of a wiki bound, for use with `re.sub`."""
    return lambda match: _show_link(match, hidden)


def _show_link(match: re.Match[str], hidden: frozenset[str]) -> str:
    """Return the rendered text of a matched link: its label or target, or "" for files, categories and other languages.

    `hidden` contains the lower-case names of namespaces. Links to them are not rendered.
    """
    target, bar, label = match[1].partition("|")
    target = target.strip()
    is_shown, target = target.startswith(":"), target.removeprefix(":")
    prefix, colon, page = target.partition(":")
    if colon and not is_shown:
        if prefix.strip().lower().replace("_", " ") in hidden or _FILE.search(page) or _is_alone_on_line(match, page):
            return ""
        if not bar and page[:1].strip() and _LANGUAGE_PREFIX.fullmatch(prefix):
            return ""
    if not bar:
        return target
    label = label.rpartition("|")[2].strip() if "|" in label else label
    return label if label else page.partition("(")[0].strip() or target.partition("(")[0].strip()


def _is_alone_on_line(match: re.Match[str], page: str) -> bool:
    """Return True for a link with a namespace that is alone on its line, as is usual for categories in any language.

    `page` is the link's target without the namespace.
    """
    text, end = match.string, match.end()
    return page[:1].strip() != "" and text[match.start() - 1] in "\n]" and text[end : end + 1] in ("", "\n", "[")


def show_external_links(text: str) -> str:
    """Replace external links, `[http://... label]`, with their labels; "" if there is no label."""
    return _EXTERNAL_LINK.sub(lambda match: match[1].strip(), text)


def show_links(text: str, hidden: frozenset[str] = DROPPED_NAMESPACES) -> str:
    """Replace the innermost links with their rendered text. Call this again for links that contain other links.

    Args:
        text: Wikitext.
        hidden: Lower-case names of namespaces. Links to them are not rendered.
    """
    return _LINK.sub(_build_reader(hidden), "".join(_PLAIN_LINK.split(text)))


def show_loose_links(text: str, hidden: frozenset[str] = DROPPED_NAMESPACES) -> str:
    """Replace the innermost links with their rendered text, including links that contain braces.

    Args:
        text: Wikitext.
        hidden: Lower-case names of namespaces. Links to them are not rendered.
    """
    return _LOOSE_LINK.sub(_build_reader(hidden), text)
