"""Which blocks of a page are its main text, and the table and the marks that this rests on."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora.sources.web.facts import collect_metas
from corpora.sources.web.main_text.blocks import choose_main_text
from corpora.sources.web.main_text.features import (
    BIT,
    FEATURES,
    MARKS,
    carry_down_plain,
    compute_marks,
    compute_own_marks,
    count_texts,
    describe_blocks,
    find_first_class,
)
from corpora.sources.web.main_text.mark_kernels import carry_down, count_characters_plain, find_possible_starts
from corpora.sources.web.markup.elements import WrittenAttributes
from corpora.sources.web.tree import Block, PageLimits, Tree, parse_html

NAMES = ("Ayr", "Troon", "Girvan", "Oban", "Wick", "Mallaig", "Stornoway")
LONG = "The harbour was quiet on the morning after the storm, and the boats lay where the tide had left them, she said."


def tree_of(html: str) -> Tree:
    tree = parse_html(html, PageLimits())
    assert isinstance(tree, Tree)
    return tree


def main_blocks(tree: Tree) -> list[Block]:
    return choose_main_text(tree, "", collect_metas(tree)).blocks


def blocks_of(html: str) -> list[tuple[str, str]]:
    return [(block.tag, block.text) for block in tree_of(html).blocks]


@pytest.mark.parametrize(
    ("html", "blocks"),
    [
        ("<p>a<p>b", [("p", "a"), ("p", "b")]),
        ("<div>a<p>b</p>c</div>", [("div", "a"), ("p", "b"), ("div", "c")]),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>", [("li", "a"), ("li", "b"), ("li", "c")]),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", [("td", "a"), ("td", "b"), ("td", "c"), ("body", "d")]),
        ("<table><td>a</div>b</table>", [("td", "a"), ("td", "b")]),
        ("<p>a<b>b</p><p>c</b>d</p>", [("p", "ab"), ("p", "cd")]),
        ("<p>a<br>b<br> <BR/>c</p>", [("p", "a\nb"), ("p", "c")]),
        ("<pre>a\n  b\n\nc</pre>", [("pre", "a\n  b\nc")]),
        ("<p> a\n b&nbsp;&amp;&lt;c </p>", [("p", "a b &<c")]),
        ("<p>a<script>'</p>' <p></script>b<style>p</style><!-- <p> -->c</p>", [("p", "abc")]),
        ("<p>1 < 2 and 3 > 2</p>", [("p", "1 < 2 and 3 > 2")]),
        ('<p title="a > b">c</p>', [("p", "c")]),
        ("<p>a<span class='sr-only'>b<span>c</span></span>d</p>", [("p", "ad")]),
        ("<p>a<span hidden>b</p><p>c</p>", [("p", "a"), ("p", "c")]),
        ("<P>a</P><SCRIPT>b</Script><P>c", [("p", "a"), ("p", "c")]),
    ],
)
def test_a_page_is_cut_into_blocks(html: str, blocks: list[tuple[str, str]]) -> None:
    assert blocks_of(html) == blocks


def test_links_are_counted_in_whatever_letters() -> None:
    [block] = tree_of("<p>ab <A HREF='/x'>cd <i>ef</i></A> <a name=y>gh</a></p>").blocks
    assert block.links == len("cd") + len("ef")


def test_elements_hold_spans_of_blocks() -> None:
    tree = tree_of("<div>a<section><p>b</p><p>c</p></section>d</div><p>e")
    spans = {tag: span for at, span in enumerate(tree.spans.tolist()) if (tag := tree.get_tag(at)) != "p"}
    assert spans == {"": [0, 5], "div": [0, 4], "section": [1, 3]}


def marks_at(html: str) -> list[int]:
    """The marks that each block's element has by itself or from those around it, as columns have them."""
    tree = tree_of(html)
    rows = describe_blocks(tree, "", {})
    first = FEATURES.index(MARKS[0])
    return [sum(BIT[mark] for mark, has in zip(MARKS, row[first:], strict=False) if has) for row in rows]


def test_marks_come_down_from_all_around_but_not_from_the_whole_page() -> None:
    html = f"<body class=sidebar><div class='relatedLinks'><p>x</p></div><p>{LONG}</p></body>"
    assert marks_at(html) == [BIT["related"], 0] and compute_own_marks("body", "class=sidebar") == BIT["side"]


PIECES = st.sampled_from(
    "nav ad ads load also article article_ body -content post story_text more-from moreover related sr-only hid hide "
    "hidden tool tools stool toc date update updated bio biology foot football footer footage media mediawiki lead "
    "leader no-print tags stage Comment replyTo promo box promo-box cta info 12 - _ x \u00e9 \u212a".split()
)
ATTRIBUTES = st.sampled_from([
    *("role=Banner", "role='main x'", "itemprop=articleBody", "hidden", "HIDDEN=x", "aria-hidden=true", "nav"),
    *("= x", 'aria-hidden="TRUE"', "style='color: red'", "style='disPlay : none'", "style=visibility:hidden", "/"),
    *("style=di\u017fplay:none", "data-bloc\u212a=nav", "Class='\u3000'", "class = \t'a\u3000nav\x1cads'", ">"),
    *("class", 'class="nav'),
])  # fmt: skip
WORDS_IN = st.tuples(st.sampled_from(["class", "CLASS", "id", "data-qa", "data-x"]), st.lists(PIECES, max_size=4))
WRITTEN = st.one_of(WORDS_IN.map(lambda one: f"{one[0]}='{''.join(one[1])} b'"), ATTRIBUTES)


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "nav"]), st.lists(WRITTEN, max_size=3).map(" ".join)), min_size=1, max_size=4
    )
)
def test_kernels_read_marks_as_their_twins(elements: list[tuple[str, str]]) -> None:
    """Fails if a pattern is not in the table, an attribute is cut otherwise, or a class is taken for another."""
    names = ["p", "nav"]
    numbers = np.array([names.index(tag) for tag, _ in elements], np.int64)
    pieces = [written.encode() for _, written in elements]
    stops = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    written = WrittenAttributes(b"".join(pieces), stops - [len(piece) for piece in pieces], stops)
    marks, alike = compute_marks(
        Tree(names=names, numbers=numbers, written=written, parents=np.zeros(len(elements), np.int64))
    )
    assert marks.tolist() == [compute_own_marks(*element) for element in elements]
    classes = [(tag, find_first_class(written)) for tag, written in elements]
    assert [first == second for first in alike for second in alike] == [a == b for a in classes for b in classes]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7), st.booleans(), st.integers(0, 2)), max_size=9))
def test_marks_are_carried_down_as_by_the_twin(rows: list[tuple[int, int, bool, int]]) -> None:
    elements = [(0, 0, False, 0), *rows]
    parents = [min(parent, max(0, at - 1)) for at, (parent, *_) in enumerate(elements)]
    _, marks, repeats, held = (list(column) for column in zip(*elements, strict=True))
    carried = np.empty((5, len(elements)), np.int64)
    arrays = (np.array(column, np.int64) for column in (parents, held, marks))
    carry_down(*arrays, np.array(repeats), 1.0, 5, carried)
    assert carried.T.tolist() == carry_down_plain(parents, held, marks, repeats, 1.0, 5)


@given(
    st.lists(
        st.text(st.sampled_from("aBy Read\n1_,.;!\u00a9\u201c\u3002\u65b0\u0660\u01c5\U0001f600\u017f"), min_size=1),
        min_size=1,
    )
)
@example(["Read more", "\u00a9 x", "\u00a9x", "by", "Byline", "\u201cWatch", "\u212aontakt", "1 tag", "_tag", "- tags"])
def test_texts_are_looked_at_as_by_the_twin(texts: list[str]) -> None:
    counts = count_texts(tuple(texts))[2].T.tolist()
    assert [row[:-1] for row in counts] == [count_characters_plain(text)[:-1] for text in texts]
    assert all(may_open for *_, may_open, text in ((*row, text) for row, text in zip(counts, texts, strict=True))
               if count_characters_plain(text)[-1])  # fmt: skip


@given(st.lists(st.text("abc\u00e9\U0001f600", min_size=1, max_size=20), min_size=1), st.text("abc\u00e9", max_size=9))
def test_no_text_that_begins_as_something_said_is_passed_over(texts: list[str], said: str) -> None:
    """Fails if a digest is of other characters on one side, or one that would go beyond what is said is asked for."""
    said = texts[-1] + said
    codes, characters, _ = count_texts(tuple(texts))
    may = find_possible_starts(codes, characters, 4, np.frombuffer(said.encode("utf-32-le"), np.uint32)).tolist()
    assert all(has or text[:10] not in said or len(text) < 8 for has, text in zip(may, texts, strict=True))
    assert not any(has for has, text in zip(may, texts, strict=True) if len(text) < 8)


ABOUT = {
    "nav": "<nav><a href=/a>Politics and the country</a></nav>",
    "comments": f"<div class=comments><p>{LONG.replace('harbour', 'comment')}</p></div>",
    "caption": "<figure><figcaption>The harbour, as it was before the storm.</figcaption></figure>",
    "links": "<ul><li><a href=/b>Another storm is coming</a></li><li><a href=/c>Boats for sale</a></li></ul>",
    "hidden": f"<div style='display: none'><p>{LONG.replace('harbour', 'secret')}</p></div>",
    "footer": "<footer><p>Copyright 2024 The Harbour Post. All rights reserved.</p></footer>",
    "newsletter": "<div class=newsletter><p>Sign up for our newsletter</p></div>",
}


@pytest.mark.parametrize("what", ABOUT)
@pytest.mark.parametrize("before", [False, True])
def test_what_stands_about_an_article_is_left_out(what: str, before: bool) -> None:
    texts = [LONG.replace("morning", f"morning {number}") for number in ("one", "two", "three", "four", "five")]
    article = "<article>" + "".join(f"<p>{text}</p>" for text in texts) + "</article>"
    html = f"<body>{ABOUT[what] + article if before else article + ABOUT[what]}</body>"
    assert len(tree_of(html).blocks) > len(texts)
    assert [block.text for block in main_blocks(tree_of(html))] == texts


def test_what_stands_twice_is_kept_once() -> None:
    html = f"<article><p>{LONG}</p><p>{LONG}</p><p>{LONG.replace('quiet', 'loud')}</p></article>"
    assert [block.text for block in main_blocks(tree_of(html))] == [LONG, LONG.replace("quiet", "loud")]


def test_the_best_is_kept_where_nothing_is_sure() -> None:
    tree = tree_of(f"<div class='blurb teaser author'><p>{LONG} {LONG} {LONG}</p></div><nav>Home</nav>")
    assert main_blocks(tree) == tree.blocks[:1]


def test_a_mark_that_carries_the_page_says_nothing() -> None:
    texts = [LONG.replace("morning", f"morning {number}") for number in ("one", "two", "three", "four", "five")]
    widgets = "".join(f"<div class='elementor-widget sidebar tags blurb'><p>{text}</p></div>" for text in texts)
    html = f"<body><nav><a href=/a>Politics and the country</a></nav><div class=page>{widgets}</div></body>"
    assert [block.text for block in main_blocks(tree_of(html))] == texts


def test_posts_in_noscript_are_text() -> None:
    posts = "".join(f"<div class='post'><p>{LONG.replace('harbour', f'harbour of {name}')}</p></div>" for name in NAMES)
    html = f"<head><noscript><link rel=x></noscript></head><body><div id=main></div><noscript>{posts}</noscript></body>"
    assert len(main_blocks(tree_of(html))) == len(NAMES)


@pytest.mark.parametrize("row", ["<li>{}</li>", "<tr><td>{}</td></tr>", "<div>{}</div>", "<p>{}</p>", "{}<br><br>"])
def test_a_plain_page_is_kept_whole(row: str) -> None:
    texts = [LONG.replace("harbour", f"harbour of {name}") for name in NAMES]
    html = f"<html><body>{''.join(row.format(text) for text in texts)}</body></html>"
    text = choose_main_text(tree_of(html), "", {})
    assert [block.text for block in text.blocks] == texts and 0 <= text.whole <= 1


def test_pages_of_prose_are_surer_than_lists_of_links() -> None:
    prose = "".join(f"<p>{LONG.replace('harbour', f'harbour of {name}')}</p>" for name in NAMES)
    links = "".join(f"<li><a href=/{name}>Boats of {name}</a></li>" for name in NAMES)
    sure, unsure = (choose_main_text(tree_of(f"<body>{html}</body>"), "", {}).whole for html in (prose, links))
    assert sure > unsure


def test_no_page_has_no_text() -> None:
    assert main_blocks(tree_of("")) == []
    assert main_blocks(tree_of("<p></p><br>")) == []
