"""Templates one by one: that each takes any arguments, what unknown ones show, and what goes with a hole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_cases import cases_of
from tiers import examples

from corpora.sources.wiki.wikitext import templates
from corpora.sources.wiki.wikitext.arguments import (
    HOLE,
    Expansion,
    to_english_number,
    to_local,
    to_local_quotes,
)
from corpora.sources.wiki.wikitext.prose import WikitextSettings, read_wikitext, wikitext_to_text
from corpora.sources.wiki.wikitext.unknown import MAX_BRACKETS, UnknownTemplate, show_unknown, without_holes
from corpora.sources.wiki.wikitext.wikis import ALL_WIKIS, Wiki, list_codes, read_wiki

WIKIS = cases_of(__file__, "wikis")
NUMBERS = ["", "1", "12", "1950", "2", "-3.5", "1,200", "²", "٣", "1/2", "0", "9" * 40, "1e99", "1e-99", "0.0000000001"]
UNITS = ["km", "e6km2", "koilbbl/d", "ftin", "/km2", "mpgus", "C", "to", "(21)", "/" * 5_000]
ARGUMENT = st.sampled_from([*NUMBERS, *UNITS, "XIX", "a b", "en", "=", HOLE]) | st.text(max_size=3)
NAMED = "lang texte text df u e order disp sigfig frac round prec ft in m".split()


@given(
    st.sampled_from(sorted(list_codes())).flatmap(
        lambda wiki: st.sampled_from([*templates.find_expansions(wiki).values()])
    ),
    st.lists(ARGUMENT, max_size=8),
    st.dictionaries(st.sampled_from(NAMED), ARGUMENT),
)
@examples(500)
def test_every_expansion_takes_any_arguments(expansion: Expansion, arguments: list[str], named: dict[str, str]) -> None:
    assert isinstance(expansion(arguments, named), str)


@pytest.mark.parametrize("wiki", [ALL_WIKIS, *sorted(list_codes())])
def test_the_file_of_a_wiki_says_what_can_be_used(wiki: str) -> None:
    """Fails on a name that could never be found or has two kinds, an unknown kind, and a form that writes nonsense."""
    form = read_wiki(wiki)
    by_kind = [name.strip() for names in form.templates.values() for name in names.replace("\n", " ").split(" | ")]
    names = [*by_kind, *form.before, *form.after, *form.symbols]
    assert [name for name in names if name != name.lower() or "_" in name or not name] == []
    assert len(by_kind) == len({*by_kind}) and form.templates.keys() <= templates.EXPANSIONS.keys()
    assert len(form.months.split()) in (0, 12) and len(form.digits) == 10 and "{words}" in form.in_language
    assert form.date.format(day=1, month="May", number=5, year=1950) != form.date
    assert ("{month}" in form.date) <= bool(form.months) or form.date == Wiki().date
    assert not {*form.also.split()} & list_codes()
    assert to_local_quotes("“x”", wiki)[1:-1].strip() == "x"
    assert to_english_number(to_local("1,234,567.5", wiki), wiki) in ("1234567.5", "1,234,567.5", "12,34,567.5")


def test_a_wiki_without_a_file_is_read_by_its_relative() -> None:
    assert read_wiki("lb").decimal == "," and not read_wiki("lb").languages and read_wiki("de-at") == read_wiki("de")
    assert read_wiki("tlh") == Wiki()
    page = "Ein {{Einheit|12345|km}} ({{lang-en|mill}}) {{Unklar|langer Weg}}."
    assert read_wikitext(page, WikitextSettings(wiki="lb")).text == "Ein 12.345 km (mill) langer Weg."


def test_every_template_that_wraps_words_keeps_them() -> None:
    """Fails if a template of a wiki that marks words as doubtful, or formats them, takes them away; in every wiki."""
    for wiki in sorted(list_codes()):
        kinds = read_wiki(wiki).map_template_kinds()
        for name in (name for name, kind in kinds.items() if kind in ("wrapped", "first")):
            page = f"Alpha {{{{{name}|beta gamma}}}} delta."
            assert read_wikitext(page, WikitextSettings(wiki=wiki)).text == "Alpha beta gamma delta.", (wiki, name)
    since = "Alpha{{refnec|mai 2010}} delta {{fakt?|12|5|2010}}."
    assert read_wikitext(since, WikitextSettings(wiki="fr")).text == "Alpha delta."


@pytest.mark.parametrize(
    ("before", "body", "shown"),
    [
        ("It is about ", "xdist|12|km", "12 km"),
        ("It is about ", "xdist|12|13", "12"),
        ("It is about ", "xdist|12|a long remark on it", HOLE),
        ("It cost $", "xprice|5", "5"),
        ("from “", "xname|Minehead", "Minehead"),
        ("from ", "xsound|a.ogg|Minehead", ""),
        ("from ", "sfn|Smith|1990", ""),
        ("from ", "xnote|date=May 2010", ""),
        ("from ", "xword", HOLE),
        ("a town", "xnote|some words", ""),
        ("a town ", "xbox|some words", "some words"),
        ("a town ", "xbox|de|Stadt und Land", "Stadt und Land"),
        ("a town ", "flag of|Kent", ""),
        ("la Ville d'", "xbox|Ayr", "Ayr"),
        ("a ''", "xbox|words", "words"),
        (" '''Ayr'''", "xnote|words", ""),
        ("町に", "xbox|古い橋", "古い橋"),
        ("町です。", "xbox|橋", ""),
        ("* ", "xflag|Kent", ""),
        ("a town", "xnote|5", ""),
        ("a town ", "xnote|5", ""),
        ("a town ", "IPA|/a/", "/a/"),
        ("a town (", "IPA|/a/", ""),
        ("a town (", "IPA-fr|a|b", ""),
        ("a town ", "XXe siècle", "XXe siècle"),
        ("a town ", "84e|congrès mondial", "84e congrès mondial"),
        ("a town ", "vie", ""),
        ("a town (", "vol-de|Stadt", "Stadt"),
        ("a town (", "vol-zz|Stadt", "Stadt"),
        ("a town ", "xword", HOLE),
        ("at ", "coord|1.5|-2.25|display=inline", "1.5°, -2.25°"),
        ("at ", "coord|1|2|3|N|4|5|6|W", "1°2′3″N 4°5′6″W"),  # noqa: RUF001
    ],
)
def test_what_an_unknown_template_shows(before: str, body: str, shown: str) -> None:
    text = before + "{{" + body + "}} and on"
    met: list[UnknownTemplate] = []
    assert show_unknown(body, text, len(before), "en", met) == shown
    assert [template.shown for template in met] in ([], [shown])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"One. Two {HOLE} of it. Three.", "One. Three."),
        (f"One (of {HOLE}) two.", "One two."),
        (f"One ((a) of {HOLE}) two. Three.", "Three."),
        (f"One two {HOLE}\nThree.", "\nThree."),
        (f"== Life {HOLE}==\nThree.", "== Life ==\nThree."),
        (f"{HOLE} begins. He said: “No.” Then {HOLE}.", "He said: “No.” "),
        ("Nothing here.", "Nothing here."),
    ],
)
def test_a_hole_takes_its_bracket_or_its_sentence_with_it(text: str, left: str) -> None:
    assert without_holes(text) == left.rstrip(" ")


def test_brackets_in_brackets_end() -> None:
    deep = "(" * 1000 + HOLE + ")" * 1000 + " One. Two."
    assert HOLE not in without_holes(deep)
    assert MAX_BRACKETS < 1000


@given(st.text("()[]{}|. A1a" + HOLE, max_size=60))
@settings(deadline=None)
def test_no_hole_is_left(text: str) -> None:
    assert HOLE not in without_holes(text)
    assert "\x01" not in wikitext_to_text(text)


def test_settings_say_what_they_mean() -> None:
    page = "Let <math>\\pi</math> and [[Ort:X|a place]] be.\n* One item of at least six words."
    assert read_wikitext(page).text == "Let [formula] and a place be.\nOne item of at least six words."
    other = WikitextSettings(math="tex", lists="drop", hidden=frozenset({"ort"}))
    assert read_wikitext(page, other).text == "Let \\pi and be."


@pytest.mark.parametrize("wiki", WIKIS)
def test_pages_of_every_wiki_are_read_with_its_own_names(wiki: str) -> None:
    """Fails if a template, number, date or quote of a wiki is written as the English Wikipedia has it."""
    case = WIKIS[wiki]
    assert read_wikitext(case["input"], WikitextSettings(wiki=wiki)).text == case["expected"]
