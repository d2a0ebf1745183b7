"""Scores of answers that are texts: exact match and F1 of SQuAD 1.1, SQuAD 2.0 and ReCoRD, as in their scripts.

Texts are compared in a normal form (`normalised`), token by token where F1 is asked for; of several gold answers the
best counts. All scores are shares in [0, 1], which the scripts print a hundredfold.
Two things differ from the scripts, so that nothing is skipped: a question without an answer is refused (the script of
1.1 counts it as wrong, that of 2.0 leaves it out), and a threshold never separates questions of equal `no_answer`.
Cost: 20 s for a million questions of three short gold answers each.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Float64s
from trainer.tasks.scores.texts import rates

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))

Golds = Sequence[Sequence[str]]  # of each question the answers that are right


class Match(NamedTuple):
    """exact: 1 or 0; f1: that of the tokens."""

    exact: float
    f1: float


class Threshold(NamedTuple):
    """A question is left unanswered where its `no_answer` is above `value`; so the mean is `score`."""

    score: float
    value: float


def normalised(text: str) -> str:
    """In lower case, without ASCII's punctuation, then without articles, and with single spaces between words.

    >>> normalised("The  U.S.-led (an) alliance")
    'usled alliance'
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def _match(wanted: str, answer: str) -> Match:
    """Compare two texts in normal form; F1 of tokens as bags. Where one has no token, F1 is whether both have none.

    (The script of 1.1 gives F1 0 to two texts without tokens, and exact match 1; a gold answer of 1.1 has one.)

    >>> _match("quick brown fox", "quick fox")
    Match(exact=0.0, f1=0.8)
    """
    if wanted == answer:
        return Match(1.0, 1.0)
    golden, answered = wanted.split(), answer.split()
    common = (Counter(golden) & Counter(answered)).total()
    return Match(0.0, rates(common, len(answered), len(golden)).f1)


def best_match(golds: Sequence[str], answer: str) -> Match:
    """Return the best of each score over the gold answers, maybe of two of them; no gold answer is the empty one.

    >>> best_match(["Denver Broncos", "the Broncos"], "Broncos").exact
    1.0
    """
    normal = normalised(answer)
    exact, f1 = zip(*[_match(normalised(gold), normal) for gold in golds or [""]], strict=True)
    return Match(max(exact), max(f1))


def answer_scores(golds: Golds, answers: Sequence[str]) -> dict[str, float]:
    """exact and f1: means over the questions (SQuAD 1.1, Rajpurkar et al. 2016, section 6.1; ReCoRD, Zhang et al. 2018,
    section 5.1, whose gold answers are all mentions of the entity).

    >>> answer_scores([["Paris"], ["in 1066"]], ["Paris.", "1066"])["exact"]
    0.5
    """
    exact, f1 = _matches(golds, answers).T
    return {"exact": float(exact.mean()), "f1": float(f1.mean())}


def _matches(golds: Golds, answers: Sequence[str]) -> Float64s:
    """[questions, 2]: exact match and F1 of each."""
    return np.array([best_match(texts, answer) for texts, answer in zip(golds, answers, strict=True)])


def optional_answer_scores(
    golds: Golds, answers: Sequence[str], no_answer: Sequence[float], *, threshold: float = 1.0
) -> dict[str, float]:
    """Score questions that may have no answer (SQuAD 2.0, Rajpurkar et al. 2018, section 5; their evaluate-v2.0.py).

    A question without gold answers is answered right by nothing alone; so is one whose gold answers are all empty in
    their normal form, and where others are not, the empty ones do not count.
    exact, f1: over all questions; has_answer_*, no_answer_*: over those with and without one, where there are any
    no_answer: how much speaks for no answer: a probability, or a difference of scores. Questions above `threshold`
        count as answered with nothing. With it come best_exact and best_f1, from the answers as they were given, and
        their thresholds, as `best_threshold` finds them.
    """
    given_Q2 = _matches([[text for text in texts if normalised(text)] for texts in golds], answers)
    has_Q = np.array([bool(texts) for texts in golds])
    against_Q, answered_Q = np.array(no_answer, np.float64), np.array([bool(answer) for answer in answers])
    silent_Q = against_Q > threshold
    scores = _by_kind(np.where(silent_Q[:, None], ~has_Q[:, None], given_Q2), has_Q)
    for number, name in enumerate(Match._fields):
        best = best_threshold(given_Q2[:, number], has_Q, answered_Q, against_Q)
        scores |= {f"best_{name}": best.score, f"best_{name}_threshold": best.value}
    return scores


def best_threshold(scores: Float64s, has_answer: Bools, answered: Bools, no_answer: Float64s) -> Threshold:
    """The best mean score as `find_best_thresh` of evaluate-v2.0.py has it, and the value of `no_answer` there.

    scores: of each question as it was answered; answered: whether its answer is any text
    One question after another, the least `no_answer` first and equal ones in their order, is answered and no longer
    left open; the least such number of the best is taken. A question without answer then loses 1 for any text, also for
    one that is nothing in its normal form; and the best may part questions of one value, which no threshold does. Where
    nothing is answered the value is 0, as in the script, or the next number below the least where that is not above 0.

    >>> has = np.array([True, False, True])
    >>> best_threshold(np.array([1.0, 0.0, 0.5]), has, np.array([True] * 3), np.array([0.1, 0.9, 0.2]))
    Threshold(score=0.8333333333333334, value=0.2)
    """
    order = np.argsort(no_answer, kind="stable")
    gains = np.where(has_answer, scores, -1.0 * answered)[order]
    sums = np.cumsum(np.append((~has_answer).sum(), gains))
    values, best = no_answer[order], int(np.argmax(sums))
    nothing = min(0.0, float(np.nextafter(values[0], -np.inf)))
    return Threshold(float(sums[best] / len(scores)), float(values[best - 1]) if best else nothing)


def _by_kind(scores_Q2: Float64s, has_Q: Bools) -> dict[str, float]:
    scores: dict[str, float] = {}
    for kind, rows in (("", np.ones_like(has_Q)), ("has_answer_", has_Q), ("no_answer_", ~has_Q)):
        if rows.any():
            exact, f1 = scores_Q2[rows].mean(0).tolist()
            scores |= {f"{kind}exact": exact, f"{kind}f1": f1}
    return scores
