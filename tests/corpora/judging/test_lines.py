"""Repeated lines: those that are named go, a column is edited as its documents are, and else nothing is done."""

from itertools import pairwise

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_columns import column
from tiers import examples

from corpora.judging.steps.lines import line_hash, line_hashes, remove_lines, remove_lines_plainly

PARTS = [" ", "  ", "\n", "\n\n", "\n \n", "\t", ".", "”", "one", "One", "é", "。", "x" * 21]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=30).map("".join))


def ascending(lines: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(sorted(map(line_hash, lines)), np.uint64)


@examples(300)
@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=3))
@example(["one\ntwo\n\nONE \nthree"], ["one"])
@example(["Home\nIt is all here.", "Home \n\n home"], ["home"])
def test_the_column_is_the_definition(texts: list[str], gone: list[str]) -> None:
    repeated = ascending(gone)
    wanted = [remove_lines_plainly(text, {*repeated.tolist()}) for text in texts]
    edited, removed = remove_lines(column(texts), repeated)
    assert edited.to_pylist() == [text for text, _ in wanted]
    assert removed == sum(len(found) for _, found in wanted)


def test_nothing_to_remove_copies_nothing() -> None:
    texts = column(["One line here.\n\n\n Odd  space.", ""])
    assert remove_lines(texts, ascending([]))[0] is texts
    assert remove_lines(texts, ascending(["another"]))[0] is texts


def test_slices_are_read_where_they_are() -> None:
    edited, _ = remove_lines(column(["x", "Home\nIt is all here.", "y"])[1:2], ascending(["home"]))
    assert edited.to_pylist() == ["It is all here."]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4))
@example(["a\nA\n\nb\n a", "", "b\na", "\n"])
def test_hashes_are_those_of_the_different_lines(texts: list[str]) -> None:
    wanted = [
        [*dict.fromkeys(line_hash(line) for line in text.split("\n") if line.strip("".join(map(chr, range(33)))))]
        for text in texts
    ]
    hashes, starts = line_hashes(column(texts))
    assert [hashes[start:end].tolist() for start, end in pairwise(starts.tolist())] == wanted


def test_lines_that_differ_have_other_hashes() -> None:
    lines = [word * times for word in ("a", "ab", "é", "A.", " a b") for times in range(1, 40)] + ["a\0", "a\0\0b"]
    assert len({line_hash(line) for line in lines}) == len({line.strip().strip("\0").lower() for line in lines})
