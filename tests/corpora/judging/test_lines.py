"""The line rules: each takes out what it names, a column is edited as its documents are, and off is off."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_columns import column
from tiers import examples

from corpora.judging.steps.lines import LINE_RULES, LineSettings, compute_line_hash, edit_lines, edit_text, hash_lines

ALL = LineSettings(
    terminal_punctuation=True,
    min_words=3,
    max_word_characters=20,
    drop_javascript=True,
    drop_policy=True,
    strip_citations=True,
)
PARTS = ["[1]", "[]", "[edit]", "[citation needed]", "[edit", "[x]", " ", "  ", "\n", "\n\n", "\n \n", "\t", "."]
PARTS += ["...", "…", "”", "!", "one", "é", "。", "Javascript", "USE cookies", "terms of use", "[", "]"]
PARTS += ["x" * 21, "é" * 20]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
SETTINGS = st.builds(
    LineSettings,
    terminal_punctuation=st.booleans(),
    min_words=st.integers(0, 3),
    max_word_characters=st.sampled_from([0, 3, 20]),
    drop_javascript=st.booleans(),
    drop_policy=st.booleans(),
    strip_citations=st.booleans(),
)


def ascending(lines: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(sorted(map(compute_line_hash, lines)), np.uint64)


@examples(300)
@given(st.lists(TEXTS, max_size=4), SETTINGS, st.lists(TEXTS, max_size=3))
@example(["a [1] [2].", "a [1]b [2][3]c", "[1] [edit]", "[1]", " [1] é[citation needed]"], ALL, [])
@example(["one\ntwo\n\nONE \nthree"], LineSettings(), ["one"])
def test_the_column_is_the_definition(texts: list[str], chosen: LineSettings, gone: list[str]) -> None:
    repeated = ascending(gone)
    wanted = [edit_text(text, chosen, {*repeated.tolist()}) for text in texts]
    edited, counts = edit_lines(column(texts), chosen, repeated)
    assert edited.to_pylist() == [text for text, _ in wanted]
    rules = [rule for _, found in wanted for rule, _ in found]
    assert counts == {rule: rules.count(rule) for rule in LINE_RULES if rule in rules}


SPOILT = {
    "lines.repeated": "Sent from my telephone.",
    "lines.citations": "The bridge was built in 1911.[12] It fell [edit]in 1940 [citation needed].",
    "lines.terminal_punctuation": "Read more about this...",
    "lines.min_words": "Share this!",
    "lines.max_word_characters": f"Here is an {'a' * 21}.",
    "lines.javascript": "Please enable JavaScript to go on.",
    "lines.policy": "By reading on you accept our Privacy Policy.",
}


@pytest.mark.parametrize("rule", LINE_RULES)
def test_every_rule_finds_what_it_names(rule: str) -> None:
    """Fails if a rule finds too much or too little, or finds a line when it is off."""
    text = f"It rained all day.\n{SPOILT[rule]}\n\nThen “it” snowed.\nNobody came home”"
    repeated = {compute_line_hash("SENT from my telephone. ")}
    edited, found = edit_text(text, ALL, repeated)
    assert found == [(rule, SPOILT[rule])]
    left = "\nThe bridge was built in 1911. It fell in 1940." if rule == "lines.citations" else ""
    assert edited == f"It rained all day.{left}\n\nThen “it” snowed.\nNobody came home”"
    name = {"javascript": "drop_javascript", "policy": "drop_policy", "citations": "strip_citations"}
    field = name.get(rule.removeprefix("lines."), rule.removeprefix("lines."))
    off = ALL if field == "repeated" else replace(ALL, **{field: getattr(LineSettings(), field)})
    assert edit_text(text, off, () if field == "repeated" else repeated) == (text, [])


def test_off_copies_nothing_and_a_column_without_such_lines_stays() -> None:
    texts = column(["One line here.\n\n\n Odd  space.", ""])
    assert edit_lines(texts, LineSettings())[0] is texts
    assert edit_lines(texts, replace(ALL, min_words=0))[0] is texts


def test_a_document_may_be_left_with_nothing() -> None:
    edited, counts = edit_lines(column(["Home\nAbout", "It is all here.", "[1]\n\nHome"]), ALL)
    assert edited.to_pylist() == ["", "It is all here.", ""]
    assert counts == {"lines.citations": 1, "lines.terminal_punctuation": 3}


def test_slices_are_read_where_they_are() -> None:
    edited, _ = edit_lines(column(["x", "Home\nIt is all here.", "y"])[1:2], ALL)
    assert edited.to_pylist() == ["It is all here."]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4))
@example(["a\nA\n\nb\n a", "", "b\na", "\n"])
def test_hashes_are_those_of_the_different_lines(texts: list[str]) -> None:
    wanted = [
        [
            *dict.fromkeys(
                compute_line_hash(line) for line in text.split("\n") if line.strip("".join(map(chr, range(33))))
            )
        ]
        for text in texts
    ]
    hashes, starts = hash_lines(column(texts))
    assert [hashes[start:end].tolist() for start, end in pairwise(starts.tolist())] == wanted


def test_lines_that_differ_have_other_hashes() -> None:
    lines = [word * times for word in ("a", "ab", "é", "A.", " a b") for times in range(1, 40)] + ["a\0", "a\0\0b"]
    assert len({compute_line_hash(line) for line in lines}) == len({line.strip().strip("\0").lower() for line in lines})
