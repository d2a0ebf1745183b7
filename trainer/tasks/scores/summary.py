"""Scores of summaries: ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum (Lin 2004), as the Python package rouge-score has them.

A text is its runs of a-z and 0-9 in lower case; there is no stemming, and all other characters, accented letters as
well, separate words. So it is of no use for scripts other than Latin. A score is the F1 of precision and recall, and 0
where either text has no such words.

    rouge1, rouge2   words and pairs of words, as bags
    rougeL           the longest common subsequence of the whole texts
    rougeLsum        by sentences, one a line: of every gold sentence the words that are in a longest common subsequence
                     with any answered sentence; no word counts more often than either text has it

Cost: 10 s for a thousand pairs of texts with 10 sentences of 25 words each, nearly all of it rougeLsum's.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from trainer.tasks.scores.texts import means, rates

WORD = re.compile(r"[a-z0-9]+")

Words = list[str]


def rouge_scores(golds: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """Return the means over all summaries.

    >>> rouge_scores(["the cat sat"], ["The cat!"])["rouge1"]
    0.8
    """
    return means([rouge(gold, answer) for gold, answer in zip(golds, answers, strict=True)])


def rouge(gold: str, answer: str) -> dict[str, float]:
    """Return the scores of one summary."""
    wanted, answered = _words(gold), _words(answer)
    return {
        "rouge1": bags_f1(wanted, answered),
        "rouge2": bags_f1([*pairwise(wanted)], [*pairwise(answered)]),
        "rougeL": rates(common_length(wanted, answered), len(answered), len(wanted)).f1,
        "rougeLsum": _by_sentence(_sentences(gold), _sentences(answer)),
    }


def _words(text: str) -> Words:
    return WORD.findall(text.lower())


def _sentences(text: str) -> list[Words]:
    return [_words(line) for line in text.split("\n") if line]


def bags_f1(wanted: Collection[object], answered: Collection[object]) -> float:
    """Return the F1 of two collections, in which equal things may be several times."""
    common = (Counter(wanted) & Counter(answered)).total()
    return rates(common, len(answered), len(wanted)).f1


def common_length(one: Words, other: Words) -> int:
    """Return the length of the longest common subsequence: a bit for each word of `one` (Hyyrö 2004), 64 at a time.

    >>> common_length("a b c d".split(), "b x d a".split())
    2
    """
    places: dict[str, int] = {}
    for at, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << at
    whole = (1 << len(one)) - 1
    state = whole
    for word in other:
        both = state & places.get(word, 0)
        state = (state + both | state - both) & whole
    return len(one) - state.bit_count()


def _by_sentence(wanted: list[Words], answered: list[Words]) -> float:
    left = Counter(word for words in wanted for word in words), Counter(word for words in answered for word in words)
    num_wanted, num_answered = left[0].total(), left[1].total()
    hits = 0
    for words in wanted:
        for at in sorted(set[int]().union(*(_common_places(words, others) for others in answered))):
            if left[0][words[at]] > 0 and left[1][words[at]] > 0:
                left[0][words[at]] -= 1
                left[1][words[at]] -= 1
                hits += 1
    return rates(hits, num_answered, num_wanted).f1


def _common_places(words: Words, others: Words) -> list[int]:
    """Return places in `words` of a longest common subsequence, traced from the end, dropping a word of `words` first.

    The choice among equally long ones decides rougeLsum.
    """
    lengths = _lengths(words, others)
    places, at, other = [], len(words), len(others)
    while at and other:
        if words[at - 1] == others[other - 1]:
            at, other = at - 1, other - 1
            places.append(at)
        elif lengths[at][other - 1] > lengths[at - 1][other]:
            other -= 1
        else:
            at -= 1
    return places


def _lengths(words: Words, others: Words) -> list[list[int]]:
    """Return the lengths of the longest common subsequences of all beginnings."""
    rows = [[0] * (len(others) + 1)]
    for word in words:
        above, row = rows[-1], [0]
        for at, other in enumerate(others):
            row.append(above[at] + 1 if word == other else max(above[at + 1], row[at]))
        rows.append(row)
    return rows
