"""Wikitext to prose: labelled cases, what must hold for any string, and figures on real pages."""

import bz2
import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import mwparserfromhell
import pytest
from growth_by_size import QUADRATIC, growth
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_cases import cases_of
from tiers import examples, mostly_long

from corpora.sources.wiki.wikitext.links import DROPPED_NAMESPACES
from corpora.sources.wiki.wikitext.prose import (
    MIN_ITEM_WORDS,
    is_disambiguation,
    is_list,
    is_redirect,
    wikitext_to_text,
)
from corpora.sources.wiki.wikitext.wikis import list_apparatus_titles

CASES = cases_of(__file__, "kinds")

PROSE = cases_of(__file__, "wikitext")
RESIDUE = re.compile(r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|<ref|&nbsp;")
NOT_ENGLISH = ("Keilwelle", "Maurische", "Mozilla", "africaans", "sweble-Projet", "sweble-Wikipedia")
MARKS = [
    *"{ [ < | } ] > = ' & ; # * : ! _ ( ) , - / a 1".split(),
    *"{{ }} [[ ]] {{{ }}} '' ''' &nbsp; &#91; <!-- --> <ref> </ref> <math> </math> <nowiki> </nowiki>".split(),
    *("\n{|", "\n|-", "\n|}", "\n==", "==\n", " ", "\n", "\n\n", "\r\n", "[[File:", "[http://", "<ref name=", "/>"),
    *("{{convert|", "{{val|", "{{lang|", "{{birth date|", "{{quote|", "{{!}}", "<br>", "</", "__TOC__", "&amp;nbsp;"),
]  # fmt: skip


@pytest.mark.parametrize("case", PROSE, ids=lambda case: case["name"])
def test_a_labelled_case_comes_out_as_written(case: dict[str, str]) -> None:
    assert wikitext_to_text(case["input"]) == case["expected"]


@given(st.lists(st.sampled_from(MARKS) | st.text(st.characters(exclude_categories=()), max_size=4), max_size=40))
@examples(300)
def test_any_string_is_taken_and_leaves_no_mark(pieces: list[str]) -> None:
    text = wikitext_to_text("".join(pieces))
    assert not RESIDUE.search(text)
    assert not text.startswith("\n") and not text.endswith("\n") and "\n\n\n" not in text


WORD = st.text("abcdefghijklmnopqrstuvwxyzäöüéßжяλ中", min_size=1, max_size=9)
SENTENCE = st.builds(
    lambda words, end: " ".join(words).capitalize() + end,
    st.lists(
        st.builds("".join, st.tuples(WORD, st.sampled_from(["", "", "", ",", ";", "'s", "-x", " (1)"]))),
        min_size=1,
    ),
    st.sampled_from([".", "!", "?", ' "so".', " 10 %.", " < 5 > 3."]),
)
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=4).map(" ".join)


@given(st.lists(PARAGRAPH, min_size=1, max_size=5).map("\n\n".join))
@settings(deadline=None)
def test_plain_prose_passes_unchanged(prose: str) -> None:
    assert wikitext_to_text(prose) == prose


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Balanced markup around other balanced markup."""
    frames = ["[[x|{}]]", "[[{}]]", "[[File:a.png|thumb|{}]]", "{{{{cite|a={}}}}}", "{{{{nowrap|{}}}}}", "'''{}'''"]
    frames += ["\n{{|\n|-\n| {}\n|}}\n", "<ref>{}</ref>", "<!-- {} -->", "<small>{}</small>", "[http://a.b {}]"]
    frames += ["{{{{lang|fr|{}}}}}", "<math>{}</math>", "{{{{convert|5|km|{}}}}}", "\n== {} ==\n", "\n* {}\n", "''{}''"]
    return st.builds(lambda frame, body: frame.format(body), st.sampled_from(frames), inner)


BALANCED = st.recursive(
    st.sampled_from(["word", "two words", "5", "a&nbsp;b", "{{x}}", "[[y]]", "{{!}}", "<br>"]),
    lambda inner: _wrapped(inner) | st.lists(inner, max_size=4).map(" ".join),
    max_leaves=12,
)


@given(BALANCED)
@examples(300)
def test_balanced_markup_leaves_no_mark_and_its_surroundings_whole(markup: str) -> None:
    text = wikitext_to_text(f"Alpha stays here.\n\n{markup}\n\nOmega stays here.")
    assert not RESIDUE.search(text)
    assert text.startswith("Alpha stays here.") and text.endswith("\n\nOmega stays here.")


HOSTILE = [
    "{{{{[[[[<", "{{", "}}", "[[", "<ref>", "<ref name=a", "<math><gallery><pre>", "<!--", "\n<!--\n", "\n{|", "\n|}",
    "=\n", "\n== a ==", "'''", "l'''", "a''b", "&", "( , ", ", , ", "[http://", "<br>", " \n", "\n:''for a ", "<sup>",
    "{{{a|", "{{small|", "[[File:a|", "]] [", "{{a}b", "\n|{", "{{lang|a|", "<table>", "1", "\n {|",
    "({{age|1}}", "{{age|1}}", "({{age|1}}) ", "(a:", "(a: )", "of {{x|1}}", "of {{x}} A. ", "{{tmath|", "{{tmath|{a}",
    "{{tmath|{", "{{A-stub", "\n:<math>{</math>", ",)", ", ;", " ,", "born )", "(born", "[http://a [[b]]", "{{XIXe",
]  # fmt: skip


@pytest.mark.parametrize("mark", mostly_long(HOSTILE, 10))
def test_a_page_of_one_mark_costs_no_more_than_its_length(mark: str) -> None:
    """Fails if a pattern looks from each mark to the end of the page: 200 kB would then take many minutes."""

    def read(size: int) -> None:
        page = mark * (size // len(mark))
        wikitext_to_text(page)
        wikitext_to_text(page + "x" + "}}]]|}</ref>" * (size // 200))

    assert growth(read, 60_000) < QUADRATIC


NESTED = [("{{small|", "}}"), ("[[a|", "]]"), ("\n{|\n", "\n|}"), ("<table>", "</table>")]


@pytest.mark.parametrize("opening, closing", NESTED)
def test_nesting_deeper_than_any_page_ends_and_leaves_no_mark(opening: str, closing: str) -> None:
    """Fails if a mark is left, or each level looks through all below it."""

    def read(depth: int) -> str:
        return wikitext_to_text(opening * depth + "core" + closing * depth)

    assert not RESIDUE.search(read(20_000))
    assert growth(read, 10_000) < QUADRATIC


@pytest.mark.parametrize("page, expected", CASES["redirects"])
def test_redirects_are_told_in_several_languages(page: str, expected: bool) -> None:
    assert is_redirect(page) is expected


@pytest.mark.parametrize("page, title, expected", CASES["disambiguations"])
def test_disambiguation_pages_are_told_by_template_or_title(page: str, title: str, expected: bool) -> None:
    assert is_disambiguation(page, title) is expected


@pytest.mark.parametrize("title, expected", CASES["lists"])
def test_lists_are_told_by_their_titles(title: str, expected: bool) -> None:
    assert is_list(title) is expected


# Real pages.


def _pages(shared: Path) -> Iterator[tuple[str, str, bool]]:
    """Name, wikitext and whether the dump calls it a redirect, of the single pages and the sample dump."""
    for path in sorted((shared / "data" / "wikipedia" / "wikitext").iterdir()):
        page = path.read_text(encoding="utf-8")
        # One file was saved from XML as it was there, with its tags as entities.
        escaped = "&lt;ref" in page and "<ref" not in page
        yield path.name, html.unescape(page) if escaped else page, is_redirect(page)
    folder = shared / "data" / "sample" / "wikipedia"
    with bz2.open(folder / "enwiki-sample-pages-articles-multistream.xml.bz2") as file:
        root = ElementTree.parse(file).getroot()
    space = root.tag.removesuffix("mediawiki")
    for page_element in root.iter(f"{space}page"):
        page = page_element.findtext(f"{space}revision/{space}text") or ""
        redirect = page_element.find(f"{space}redirect") is not None
        yield page_element.findtext(f"{space}title") or "", page, redirect


def test_real_pages_are_clean(shared: Path) -> None:
    """Fails on any mark left over, and on scraps of markup in 1 line of 1,000."""
    pages = [page for _, page, _ in _pages(shared)]
    texts = [wikitext_to_text(page) for page in pages]
    lines = [line for text in texts for line in text.split("\n")]
    assert len(pages) == 56 + 58 and len(lines) > 10_000
    assert not [line for line in lines if RESIDUE.search(line)]
    scrap = re.compile(r"''|\( | \)|\(,|style=|</?(?:span|div|br|small|sup|td|tr)\b|&[a-z]+;|__[A-Z]+__|\|\||\[http")
    assert sum(1 for line in lines if scrap.search(line)) <= len(lines) / 1000


def test_redirects_agree_with_the_dump(shared: Path) -> None:
    told = {name: redirect for name, _, redirect in _pages(shared)}
    assert sum(told.values()) == 18
    assert {name: is_redirect(page) for name, page, _ in _pages(shared)} == told


def _oracle(page: str) -> str:
    """The same rules by mwparserfromhell's own tree: what goes is removed there, the rest is `strip_code`."""
    code = mwparserfromhell.parse(page)
    gone = list(code.filter_templates(recursive=False))
    for level in range(2, 7):
        for section in code.get_sections(levels=[level]):
            title = section.filter_headings(recursive=False)[0].title.strip_code()
            gone += [section] if title.strip().lower() in list_apparatus_titles("en") else []
    dropped_tags = "ref table gallery timeline math references source syntaxhighlight pre imagemap score".split()
    gone += [tag for tag in code.filter_tags() if str(tag.tag).strip().lower() in dropped_tags]
    for link in code.filter_wikilinks():
        space, colon, _ = str(link.title).partition(":")
        interwiki = link.text is None and re.fullmatch("[a-z]{2,3}|simple", space)
        gone += [link] if colon and (space.strip().lower() in DROPPED_NAMESPACES or interwiki) else []
    for node in gone:
        if code.contains(node):
            code.remove(node)
    for tag in code.filter_tags():
        if tag.wiki_markup and str(tag.tag) in ("li", "dd", "dt") and code.contains(tag):
            code.replace(tag, "\x03")
    lines = code.strip_code().split("\n")
    return "\n".join(line for line in lines if line[:1] != "\x03" or len(line.strip("\x03").split()) >= MIN_ITEM_WORDS)


def _agreement(shared: Path, max_characters: int) -> tuple[float, int]:
    """Word F-measure between ours and the oracle's over all English articles up to a length, and their number."""
    common, total, num_articles = 0, 0, 0
    for name, page, redirect in _pages(shared):
        if redirect or name.startswith(NOT_ENGLISH) or len(page) > max_characters:
            continue
        ours, theirs = (Counter(re.findall(r"\w+", text.lower())) for text in (wikitext_to_text(page), _oracle(page)))
        common += (ours & theirs).total()
        total += ours.total() + theirs.total()
        num_articles += 1
    return 2 * common / total, num_articles


@pytest.mark.parametrize(("longest", "least"), [(20_000, 30), pytest.param(10**9, 85, marks=pytest.mark.long)])
def test_english_articles_agree_with_mwparserfromhell(shared: Path, longest: int, least: int) -> None:
    f_measure, num_articles = _agreement(shared, longest)
    assert num_articles >= least
    assert f_measure >= 0.97
