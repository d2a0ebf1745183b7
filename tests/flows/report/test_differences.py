"""Two texts side by side: nothing marked that both have, nothing unmarked that one lacks, all bounded."""

import random

from hypothesis import given
from hypothesis import strategies as st

from flows.report import texts as differences
from flows.report.texts import MAX_COMPARED_WORDS, Piece, TextDifferences, compare_texts

few_words = st.lists(st.sampled_from(["a", "grey", "stone", "by", "the", "river,", "Seven"]), max_size=40).map(" ".join)


def shown(pieces: tuple[Piece, ...], *kinds: str) -> list[str]:
    return [word for piece in pieces if piece.kind in kinds for word in piece.text.split()]


def is_whole(compared: TextDifferences) -> bool:
    return all(piece.kind != "gap" for piece in (*compared.left, *compared.right))


@given(few_words, few_words)
def test_what_is_unmarked_is_in_both_and_what_is_marked_makes_up_the_rest(left: str, right: str) -> None:
    compared = compare_texts(left, right)
    assert not compared.is_partial and compared.is_same == (left.split() == right.split())
    if is_whole(compared):
        assert shown(compared.left, "both", "own") == left.split()
        assert shown(compared.right, "both", "own") == right.split()
        assert shown(compared.left, "both") == shown(compared.right, "both")
        assert compared.num_own_words == (len(shown(compared.left, "own")), len(shown(compared.right, "own")))


@given(few_words, few_words)
def test_either_side_is_the_other_ones_mirror_in_length(left: str, right: str) -> None:
    ours, theirs = compare_texts(left, right).num_own_words
    assert len(left.split()) - ours == len(right.split()) - theirs >= 0


def test_a_difference_far_inside_is_shown_with_its_neighbourhood() -> None:
    words = [f"w{number}" for number in range(500)]
    changed = [*words[:300], "other", *words[301:]]
    compared = compare_texts(" ".join(words), " ".join(changed))
    around = [Piece("gap"), Piece("both", " ".join(words[300 - differences.CONTEXT_WORDS : 300]))]
    after = [Piece("both", " ".join(words[301 : 301 + differences.CONTEXT_WORDS])), Piece("gap")]
    assert list(compared.left) == [*around, Piece("own", "w300"), *after]
    assert list(compared.right) == [*around, Piece("own", "other"), *after]
    assert compared.num_own_words == (1, 1)


def test_equal_texts_show_their_beginning() -> None:
    text = " ".join(f"w{number}" for number in range(500))
    compared = compare_texts(text, text)
    assert compared.is_same and compared.left == compared.right
    assert [piece.kind for piece in compared.left] == ["both", "gap"]
    assert compared.left[0].text.split() == text.split()[: differences.MAX_SHOWN_WORDS // 2]


def test_huge_texts_are_bounded_and_say_so() -> None:
    draw = random.Random(1)
    left, right = (" ".join(f"w{draw.randrange(50)}" for _ in range(3 * MAX_COMPARED_WORDS)) for _ in range(2))
    compared = compare_texts(left, right)
    assert compared.is_partial and not compared.is_same
    for pieces in (compared.left, compared.right):
        assert 0 < len(shown(pieces, "both", "own")) <= differences.MAX_SHOWN_WORDS and pieces[-1] == Piece("gap")
    endless = compare_texts(
        "same " * differences.MAX_READ_CHARACTERS, "same " * differences.MAX_READ_CHARACTERS + "but longer"
    )
    assert endless.is_partial and not endless.is_same


def test_a_long_difference_is_cut_and_a_word_without_end_is_several() -> None:
    compared = compare_texts("begin end", "begin " + "new " * 100 + "end")
    assert compared.right[1:3] == (Piece("own", " ".join(["new"] * differences.MAX_DIFFERENCE_WORDS)), Piece("gap"))
    assert compared.num_own_words == (0, 100)
    assert compare_texts("x" * 1_000, "y").num_own_words == (25, 1)


def test_scripts_without_spaces_are_compared_letter_by_letter() -> None:
    compared = compare_texts("\u4e00\u53ea\u5c0f\u7070", "\u4e00\u53ea\u5927\u7070")
    assert [piece.text for piece in compared.left] == ["\u4e00\u53ea", "\u5c0f", "\u7070"]
    assert [piece.kind for piece in compared.right] == ["both", "own", "both"]
