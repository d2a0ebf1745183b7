"""Sets whose answers are judged together: MultiRC's options of a question, ReCoRD's candidates for a gap.

MultiRC  f1a over all options; exact: questions whose options are all right (Khashabi et al. 2018, section 4)
ReCoRD   of a query the candidate that is most surely right; exact match and F1 of its text with the gold ones (Zhang et
         al. 2018, section 5.1)

A row is a question or a query, for what is drawn together is one. A record's id ends in the number of its option.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trainer.tasks.contract import Example, Prediction
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.scores.answers import best_match
from trainer.tasks.scores.texts import option_scores
from trainer.tasks.suites.judged import MEANS, OPTIONS

MULTIRC, RECORD = "superglue/multirc", "superglue/record"

Ids = Sequence[Any]


def grouped(
    name: str, file: FileSettings, ids: Ids, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Return the scores of a set that is judged so, and what a `JudgedSplit` has of its rows; nothing for another.

    predictions: of the classes "0" and "1"
    """
    if name == MULTIRC:
        return _options(ids, examples, predictions)
    return _candidates(file, ids, predictions) if name == RECORD else {}


def question_of(name: Any) -> str:
    """The question of an option.

    >>> question_of("7.3.0")
    '7.3'
    """
    return str(name).rpartition(".")[0]


def _options(ids: Ids, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
    counts: dict[str, list[float]] = {}
    for name, example, prediction in zip(ids, examples, predictions, strict=True):
        wanted, answered = int(example.label), int(prediction.argmax())
        row = counts.setdefault(question_of(name), [0.0, 0.0, 0.0, 1.0])
        for place, added in enumerate((wanted and answered, answered, wanted)):
            row[place] += added
        row[3] = float(row[3] and wanted == answered)
    rows = tuple(map(tuple, counts.values()))
    return {"scores": option_scores(rows), "statistic": OPTIONS, "rows": rows}


def _candidates(file: FileSettings, ids: Ids, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Score the surest candidate of each query, the first of equal ones, by ReCoRD's texts and gold answers."""
    best: dict[str, tuple[float, str]] = {}
    for name, prediction in zip(ids, predictions, strict=True):
        query, weight = question_of(name), float(prediction[1] - prediction[0])
        if query not in best or weight > best[query][0]:
            best[query] = weight, str(name)
    records = read_examples(replace(file, max_unusable=1.0), RowCounts(), ("id", "answer"), dict, ("gold",))
    candidates = {str(values["id"]): values for _, values in records}
    matches = [best_match(candidates[name]["gold"], candidates[name]["answer"]) for _, name in best.values()]
    rows = tuple((match.f1, match.exact) for match in matches)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    names = ("f1", "exact")
    return {"scores": dict(zip(names, means, strict=True)), "statistic": MEANS, "columns": names, "rows": rows}
