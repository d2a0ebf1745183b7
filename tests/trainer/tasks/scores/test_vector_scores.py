"""Scores of rankings: by hand, by their definitions over sets, and by ir_measures, which runs trec_eval's code."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError
from trainer.tasks.kinds.vectors import MEASURE_KINDS, compute_query_scores, compute_ranking_scores, rank_documents

QRELS = {"q1": {"a": 2, "b": 1, "c": 0, "d": 1}, "q2": {"a": 1}}
RUN = {"q1": {"c": 4.0, "b": 3.0, "x": 2.0, "a": 1.0}, "other": {"a": 1.0}}


def test_by_hand() -> None:
    """Uses levels by rank for q1 of 0, 1, -, 2, with d missing; q2 is not answered, other is not judged."""
    names = ["ndcg", "ndcg@2", "mrr", "mrr@1", "map", "map@2", "recall@2"]
    found = compute_query_scores(QRELS, RUN, names)
    log = math.log2
    expected = {
        "ndcg": (1 / log(3) + 2 / log(5)) / (2 + 1 / log(3) + 1 / log(4)),
        "ndcg@2": (1 / log(3)) / (2 + 1 / log(3)),
        **{"mrr": 1 / 2, "mrr@1": 0, "map": (1 / 2 + 2 / 4) / 3, "map@2": 1 / 2 / 3},
        "recall@2": 1 / 3,
    }
    assert found["q1"] == pytest.approx(expected)
    assert found["q2"] == dict.fromkeys(names, 0) and list(found) == ["q1", "q2"]
    assert compute_ranking_scores(QRELS, RUN, names) == pytest.approx(
        {name: score / 2 for name, score in expected.items()}
    )


def test_equal_scores_are_ranked_by_falling_id() -> None:
    """Fails if the order of the run decides, or ids are compared otherwise than by their bytes."""
    assert rank_documents({"d1": 1.0, "d10": 1.0, "d2": 1.0, "é": 1.0, "Z": 2.0}) == ["Z", "é", "d2", "d10", "d1"]
    assert compute_ranking_scores({"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0}}, ["mrr"]) == {"mrr": 1 / 2}


def test_no_relevant_document_scores_nothing() -> None:
    names = [*MEASURE_KINDS, "ndcg@1"]
    assert compute_ranking_scores({"q": {"a": 0, "b": -2}}, {"q": {"b": 1.0, "a": 0.5}}, names) == dict.fromkeys(
        names, 0
    )
    assert compute_ranking_scores({"q": {"a": 1}}, {"q": {}}, names) == dict.fromkeys(names, 0)


DOCUMENTS = st.sampled_from(["a", "b", "c", "d10", "d2", "é"])
Qrels = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]), st.dictionaries(DOCUMENTS, st.integers(-1, 3), min_size=1), min_size=1
)
Runs = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]), st.dictionaries(DOCUMENTS, st.integers(0, 3).map(float), min_size=1)
)


@examples(50)
@given(Qrels, Runs)
def test_equal_to_trec_eval(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> None:
    """It has mrr@k from another script, without a rule for equal scores.

    It does not return from some judgements below 0, so there are none.
    """
    ir: Any = pytest.importorskip("ir_measures")
    if not qrels.keys() & run.keys():
        return
    qrels = {query: {one: max(0, level) for one, level in levels.items()} for query, levels in qrels.items()}
    theirs = {
        "ndcg": ir.nDCG,
        "ndcg@2": ir.nDCG @ 2,
        "mrr": ir.RR,
        "map": ir.AP,
        "map@2": ir.AP @ 2,
        "recall@2": ir.R @ 2,
    }
    found = compute_ranking_scores(qrels, run, list(theirs))
    expected = ir.calc_aggregate([*theirs.values()], qrels, run)
    assert found == pytest.approx({name: expected[measure] for name, measure in theirs.items()})


@pytest.mark.parametrize(
    ("qrels", "run", "measures", "said"),
    [
        (QRELS, {"x": {"a": 1.0}}, ["map"], r"Not one of the 2 judged queries .* \(judged: 'q1'; run: 'x'\)"),
        ({}, {}, ["map"], r"Not one of the 0 judged queries"),
        (QRELS, RUN, ["ndgc@10"], "'ndgc@10' is not a measure of rankings"),
        (QRELS, RUN, ["ndcg@0"], "'ndcg@0' is not a measure"),
        (QRELS, RUN, ["ndcg@"], "'ndcg@' is not a measure"),
    ],
)
def test_what_cannot_be_ranked_is_refused(qrels: Any, run: Any, measures: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compute_ranking_scores(qrels, run, measures)


def test_scores_that_trec_eval_holds_for_equal_are_equal() -> None:
    """It holds 32 bits of a score. Fails where one that differs by less decides, which a run read by it would not."""
    run = {"q": {"a": 1.0 + 1e-9, "b": 1.0}}
    assert compute_ranking_scores({"q": {"a": 1}}, run, ["mrr@10"]) == {"mrr@10": 1 / 2}
    ir: Any = pytest.importorskip("ir_measures")
    assert ir.calc_aggregate([ir.RR], {"q": {"a": 1}}, run) == {ir.RR: 1 / 2}
