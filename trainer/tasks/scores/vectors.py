"""Scores of ranked documents: nDCG, MRR, MAP, recall, precision and success, as trec_eval computes them.

`qrels` holds for each query how relevant documents are (whole numbers; from 1 on a document is relevant; what is not
listed is not), `run` the score of each document that was found for it. Documents are ranked by falling score,
and equal scores by falling id, as trec_eval does (the order of a file decides nothing; Cabanac et al. 2010 on ties).
It holds scores in 32 bits, so those that differ by less are equal.
The means are over all queries of `qrels`: one that the run does not answer, or that has no relevant document, scores 0
(trec_eval -c). Queries of the run that are not judged cannot be scored and count for nothing.

A measure is a name, or a name at a depth: `ndcg@10` looks at the first ten documents, `ndcg` at all.

    ndcg        gains, each divided by log2(rank + 1), summed, over the sum of the best ranking (Järvelin, Kekäläinen
                2002, in trec_eval's form ndcg_cut): the gain is the relevance, and 0 if that is negative
    mrr         1 / the rank of the first relevant document, 0 if there is none; MS MARCO's is mrr@10
    map         the sum of the precisions at relevant documents / all relevant documents of the query
    recall      found relevant documents / all relevant documents of the query

Cost: 0.5 s for a million documents found for a thousand queries, 4 s for those of a hundred thousand.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]

MEASURES = ("ndcg", "mrr", "map", "recall")
USUAL = ("ndcg@10", "mrr@10", "map", "recall@100")


class _Ranking(NamedTuple):
    """The input of a query's measures. levels: relevance by rank; judged: that of all its judged documents."""

    levels: Int64s
    judged: Int64s


def ranking_scores(qrels: Qrels, run: Run, measures: Sequence[str] = USUAL) -> dict[str, float]:
    """Return the mean of each measure over all queries of `qrels`.

    >>> ranking_scores({"q": {"a": 1, "b": 2}}, {"q": {"a": 0.9, "c": 0.8, "b": 0.7}}, ["mrr@10", "recall@2"])
    {'mrr@10': 1.0, 'recall@2': 0.5}
    """
    each = ranking_scores_by_query(qrels, run, measures)
    table = np.array([list(scores.values()) for scores in each.values()])
    return dict(zip(measures, table.mean(0).tolist(), strict=True))


def ranking_scores_by_query(qrels: Qrels, run: Run, measures: Sequence[str] = USUAL) -> dict[str, dict[str, float]]:
    """Return the measures of each query of `qrels`, in their order: what tests between two runs compare."""
    asked = [(name, *_parsed(name)) for name in measures]
    if not any(query in run for query in qrels):
        raise InputError(
            f"Not one of the {len(qrels):,} judged queries is among the {len(run):,} of the run "
            f"(judged: {_first(qrels)}; run: {_first(run)}): are they of the same queries?"
        )
    scores = {}
    for query, levels in qrels.items():
        ranking = _ranking(levels, run.get(query, {}))
        scores[query] = {name: _measure(ranking, kind, depth) for name, kind, depth in asked}
    return scores


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Document ids by falling score in 32 bits, equal scores by falling id.

    >>> ranked({"d1": 0.5 + 1e-9, "d2": 0.5, "d3": 0.9})
    ['d3', 'd2', 'd1']
    """
    rounded = np.array([*scores.values()], np.float32).tolist()
    return [document for _, document in sorted(zip(rounded, scores, strict=True), reverse=True)]


def _parsed(name: str) -> tuple[str, int | None]:
    kind, at, depth = name.partition("@")
    if kind not in MEASURES or (at and not (depth.isdecimal() and int(depth))):
        raise InputError(
            f"{name!r} is not a measure of rankings: name one of {', '.join(MEASURES)}, with a depth from 1 on if not "
            "all documents count, like ndcg@10."
        )
    return kind, int(depth) if at else None


def _ranking(levels: Mapping[str, int], scores: Mapping[str, float]) -> _Ranking:
    by_rank = [levels.get(document, 0) for document in ranked(scores)]
    return _Ranking(np.array(by_rank, np.int64), np.array([*levels.values()], np.int64))


def _measure(ranking: _Ranking, kind: str, depth: int | None) -> float:
    levels, all_relevant = ranking.levels[:depth], int((ranking.judged >= 1).sum())
    if kind == "ndcg":
        best = _gain(np.sort(ranking.judged)[::-1][:depth])
        return _gain(levels) / best if best else 0.0
    ranks = np.flatnonzero(levels >= 1)  # ranks from 0
    if not len(ranks):
        return 0.0
    if kind == "mrr":
        return 1 / (int(ranks[0]) + 1)
    if kind == "map":
        return float((np.arange(1, len(ranks) + 1) / (ranks + 1)).sum()) / all_relevant
    return len(ranks) / all_relevant


def _gain(levels: Int64s) -> float:
    """Return the gain of documents in their order, each divided by log2(rank + 1)."""
    return float((np.maximum(levels, 0) / np.log2(np.arange(2, len(levels) + 2))).sum())


def _first(queries: Mapping[str, object]) -> str:
    return repr(next(iter(queries), None))
