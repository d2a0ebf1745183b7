"""Pages read by kernels: the same table as the plain twin makes, for whatever a page holds."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError
from corpora.sources.bytes.faults import BadRecord, DamagedBytes
from corpora.sources.contract import Tally
from corpora.sources.web import tree
from corpora.sources.web.archived_pages import TooLarge, decode_body, read_response
from corpora.sources.web.charset import decode_html
from corpora.sources.web.markup.elements import measure_space
from corpora.sources.web.markup.plain import parse_html_plain
from corpora.sources.web.tree import PageLimits, Refused, Tree, parse_html
from corpora.sources.web.warc import parse_record, read_archive

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data"
LIMITS = PageLimits()
SMALL = PageLimits(max_characters=400, max_nodes=12, max_depth=5, max_text=40)
NAMES = [*tree.NAMES, "noscript", "o:p", "my-own", "x", "P", "DIV", "ScRipt", "Title", "a\u00e9", "lin\u212a", "\u0416"]
VALUES = [
    *("", "x", "href=1", "HREF='/a'", 'rel="license"', "hidden", 'class="a sr-only b"', "style='display : none'", "/"),
    *('class="h\u0131dden"', 'title="a > b"', "a='>", 'b=">', "= ", "type=application/ld+json", "\t\f\x1c\u3000\x85"),
]
TEXTS = [
    *(" ", "\n", "\t", "\xa0", "\u2003\u3000", "a", "\u00e9\u4e2d ", "&nbsp;", "&amp", "&#10;", "&#1;", "&", "<", "< "),
    *("&eacute;", "&#x3000;a", "&ensp;", "&#xD800;", "&#65", "&#9999999999;", "&lt;b", "&notit;", "&lang;", "&#0160;x"),
    *("<<b", "\x00", "\x85", "\x1c", "\ud800", "\U0001f600", "x > y", "\r\n", '"', "'", "--> ", "=", "two  words "),
]
OTHERS = [
    "<!-- a > b -->",
    "<!-->",
    "<!--",
    "<!doctype html>",
    "<?xml?>",
    "</>",
    "</ p>",
    "<!",
    "<\u00e9>",
    "</\u00e9>",
    "<p",
]

names = st.sampled_from(NAMES)
start_tags = st.tuples(names, st.sampled_from(["", " ", "\n", "/"]), st.lists(st.sampled_from(VALUES), max_size=2)).map(
    lambda tag: f"<{tag[0]}{tag[1]}{' '.join(tag[2])}>"
)
end_tags = st.tuples(names, st.sampled_from(["", " ", "\x85", " x='>"])).map(lambda tag: f"</{tag[0]}{tag[1]}>")
texts, others = st.sampled_from(TEXTS), st.sampled_from(OTHERS)
pages = st.lists(st.one_of(texts, start_tags, texts, end_tags, others), max_size=40).map("".join)

HOSTILE = {
    "quotes that do not end": "<p a='>b" * 5_000 + "<i>x",
    "quotes of end tags": '</a ="> ="' * 5_000 + ">",
    "mere signs": "<" * 200_000 + "a<b>c",
    "signs before other letters": "<\u00e9" * 100 + "<p a='>x'>y</p>",
    "nested": "<div>" * 100_000,
    "nested, and ended": "<b><div><p>" * 1_000 + "</div>" * 1_000,
    "many elements": "<br>" * 200_001,
    "comments": "<!-- " * 50_000 + ">",
    "raw elements": "<script><svg><title>" * 20_000 + "x</p>",
    "long text": "<p>" + "word " * 200_001,
    "long text of short references": "<p>" + "&amp;" * 200_001 + "<br>x",
    "breaks": "<p>a" + "<br>" * 20_000 + "b",
    "many names": "".join(f"<x{i}>" for i in range(1_500)) + "</x7>z",
    "names": "".join(f"</x{i}>" for i in range(50_000)) + "z",
    "a number of many digits": f"<title>&#{'1' * 5_000};</title><p>&#{'1' * 5_000};",
    "nothing": "",
    "no tag": "a & b\n\nc",
}


def differs(html: str, limits: PageLimits = LIMITS) -> str:
    """What the kernels give another value for; "" where nothing."""
    fast, plain = parse_html(html, limits), parse_html_plain(html, limits)
    if isinstance(fast, Refused) or isinstance(plain, Refused):
        return "" if fast == plain else f"{fast} {plain}"
    return " ".join(name for name in Tree.__slots__ if _as_lists(fast, name) != _as_lists(plain, name))


def _as_lists(page: Tree, name: str) -> object:
    value = getattr(page, name)
    if name == "written":
        return [page.written.read(element) for element in range(len(page.numbers))]
    if name in ("names", "numbers"):  # each parser has its own numbers
        return [page.get_tag(element) for element in range(len(page.numbers))]
    return value.tolist() if isinstance(value, np.ndarray) else value


@examples(2_000)
@given(pages)
@example("<p>a<br>&nbsp;<br>b<pre>\ta\n<b>\n</b><br>  x</pre><a href=x> y <i>z </i></a>&amp;")
@example("<table><p>a<td>b<table><tr><td>c</tr></table>d</table>e<noscript><p>f</noscript>")
@example("<span hidden>a<span>b</span>c</span>d<div><i class=hide>e</div>f")
def test_kernels_and_plain_python_agree(html: str) -> None:
    assert differs(html) == ""
    assert differs(html, SMALL) == ""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_read_alike(name: str) -> None:
    assert differs(HOSTILE[name]) == ""


def test_white_space_is_pythons() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    spaces = {each for each in characters if each.isspace()}
    tried = {each for space in spaces for each in characters[max(ord(space) - 40, 0) : ord(space) + 40]}
    tried |= {*characters[:0x100], *characters[0xE0F0:0xE110], *characters[0xD7FF:0xD820], characters[-1]}
    assert spaces < tried
    assert {
        each for each in tried if measure_space(np.frombuffer(each.encode("utf-8", "surrogatepass"), np.uint8), 0)
    } == spaces


@pytest.mark.long
def test_real_pages_are_read_alike() -> None:
    archives = [path for path in SHARED.rglob("*.warc*") if path.is_file()]
    if not archives:
        pytest.skip(f"no archives of news under {SHARED}")
    num_pages, unlike = 0, []
    for path in sorted(archives):
        for html in pages_of(path):
            num_pages += 1
            unlike += [(path, html[:100])] if differs(html) else []
    assert unlike == []
    assert num_pages > 100


def pages_of(path: Path) -> Iterator[str]:
    """The bodies of an archive's responses that can be read, whatever they are."""
    try:
        for cut in read_archive(path, 0, path.stat().st_size, 1 << 26, Tally()):
            try:
                response = read_response(parse_record(cut.data))
                yield decode_html(decode_body(response, 1 << 26), response.charset).text
            except (BadRecord, TooLarge):
                continue
    except (DamagedBytes, InputError):
        return


def test_the_plain_twin_is_asked_only_where_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if common pages go the slow way."""
    monkeypatch.setattr(tree, "parse_html_plain", lambda *_: pytest.fail("asked"))
    assert isinstance(parse_html("<my-own>a &amp; b<br><br>c<p hidden>\u4e2d<\u4e2d></my-own><pre>\tx", LIMITS), Tree)


def test_what_noscript_holds_is_read() -> None:
    page = parse_html("<head><noscript><img src=x></noscript></head><noscript><p>a</p>b</noscript>c", LIMITS)
    assert isinstance(page, Tree)
    assert [(block.tag, block.text) for block in page.blocks] == [("p", "a"), ("noscript", "b"), ("body", "c")]
