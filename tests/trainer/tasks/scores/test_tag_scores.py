"""Scores of spans: by hand, by conlleval's rules token by token, by nervaluate."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from trainer.tasks.kinds.tags import (
    TaggedSpan,
    compute_span_scores,
    compute_token_accuracy,
    count_spans,
    find_spans,
    to_scheme,
)
from trainer.tasks.kinds.texts import compute_rates


def test_by_hand() -> None:
    """Gold: PER 1-2, LOC 4. Answered: PER 1-2, ORG 4, LOC 5; one of three is right, of two gold ones."""
    gold, answers = ["O", "B-PER", "I-PER", "O", "B-LOC", "O"], ["O", "B-PER", "I-PER", "O", "B-ORG", "B-LOC"]
    assert compute_span_scores([gold], [answers]) == pytest.approx(
        {"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5, "token_accuracy": 4 / 6}
    )


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B I O B", [("", 0, 1), ("", 3, 3)]),  # no types
        ("art-music art-music O art-film", [("art-music", 0, 1), ("art-film", 3, 3)]),  # types alone
        ("B-P I-P E-P S-P", [("P", 0, 2), ("P", 3, 3)]),
    ],
)
def test_tags_of_other_forms_by_hand(tags: str, spans: list[tuple[str, int, int]]) -> None:
    assert find_spans(tags.split()) == spans


def sentences(letters: str, types: Sequence[str] = ("P", "Q")) -> st.SearchStrategy[list[list[str]]]:
    tags = st.sampled_from(["O", *(f"{letter}-{name}" for letter in letters for name in types)])
    return st.lists(st.lists(tags, max_size=8), min_size=1, max_size=4)


@given(sentences("BIES"))
def test_spans_equal_to_the_rules_of_conlleval(tags: list[list[str]]) -> None:
    """BILOU is BIOES with other letters."""
    for sentence in tags:
        other = [tag.replace("E-", "L-").replace("S-", "U-") for tag in sentence]
        assert find_spans(sentence) == find_spans(other) == _conlleval(sentence)


def _conlleval(tags: list[str]) -> list[TaggedSpan]:
    """Its loop: a chunk ends and begins between two tags by rules about the pair."""
    found, first = list[TaggedSpan](), 0
    before, before_type = "O", ""
    for at, tag in enumerate([*tags, "O"]):
        letter, _, name = tag.partition("-")
        if _ends(before, letter, before_type, name):
            found.append(TaggedSpan(before_type, first, at - 1))
        if _starts(before, letter, before_type, name):
            first = at
        before, before_type = letter, name
    return found


def _ends(before: str, letter: str, before_type: str, name: str) -> bool:
    pairs = before + letter in ("BB", "BS", "BO", "IB", "IS", "IO") or before in ("E", "S")
    return pairs or (before != "O" and before_type != name)


def _starts(before: str, letter: str, before_type: str, name: str) -> bool:
    pairs = letter in ("B", "S") or before + letter in ("EE", "EI", "SE", "SI", "OE", "OI")
    return pairs or (letter != "O" and before_type != name)


@given(st.data())
def test_scores_equal_to_sets_of_spans(data: st.DataObject) -> None:
    """Fails if spans of two sentences, or of two types, are taken for one, or counts do not add up."""
    gold = data.draw(sentences("BI").filter(any))
    answers = [
        data.draw(st.lists(st.sampled_from(["O", "B-P", "I-P", "I-Q"]), min_size=len(s), max_size=len(s))) for s in gold
    ]
    wanted, found = (
        {(n, *span) for n, tags in enumerate(side) for span in find_spans(tags)} for side in (gold, answers)
    )
    expected = compute_rates(len(wanted & found), len(found), len(wanted))
    scores = compute_span_scores(gold, answers)
    assert (scores["precision"], scores["recall"], scores["f1"]) == pytest.approx(expected)
    assert count_spans(gold, answers).sum(0).tolist() == [len(wanted & found), len(found), len(wanted)]


@examples(30)
@given(st.data())
def test_equal_to_nervaluate(data: st.DataObject) -> None:
    """Covers sequences that are well formed, which is what it is made for."""
    nervaluate = pytest.importorskip("nervaluate")
    gold = data.draw(sentences("BI").filter(any))
    drawn = data.draw(st.lists(st.sampled_from(["O", "B-P", "I-P", "I-Q"]), min_size=32, max_size=32))
    gold, answers = (
        [to_scheme(tags, "bio2") for tags in side] for side in (gold, [drawn[: len(tags)] for tags in gold])
    )
    overall = nervaluate.Evaluator(gold, answers, tags=["P", "Q"], loader="list").evaluate()["overall"]["strict"]
    scores = compute_span_scores(gold, answers)
    expected = (overall.precision, overall.recall, overall.f1)
    assert (scores["precision"], scores["recall"], scores["f1"]) == pytest.approx(expected)


def test_no_span_on_either_side_scores_nothing() -> None:
    assert compute_span_scores([["O", "O"], []], [["O", "O"], []]) == {
        "precision": 0,
        "recall": 0,
        "f1": 0,
        "token_accuracy": 1,
    }


def test_tokens_by_hand() -> None:
    """Over tokens, not the mean of the sentences' shares; a tag need not be one of spans."""
    assert compute_token_accuracy([["a", "b", ""], ["-"]], [["a", "x", "y"], ["-"]]) == 2 / 4
