"""The answers to real sets, scored from their file by packages of others, equal the scores that are reported."""

import math
import re
import string
from collections import Counter
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from small_models import write_model
from small_tasks import exported_model, said_of

from trainer.tasks.data import fit_task, read_file
from trainer.tasks.formats.published import find_published_set
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.kinds.tags import to_scheme
from trainer.tasks.registry import read_task

Rows = list[dict[str, Any]]
SETS = {
    **{"glue/cola": ("cola", "dev"), "glue/sst2": ("sst2", "dev"), "glue/qnli": ("qnli", "dev")},
    **{"glue/wnli": ("wnli", "dev"), "stsb-multi": ("stsb", "dev"), "copa": ("copa", "dev")},
    **{"superglue/boolq": ("fewglue", "train"), "wnut17": ("wnut17", "dev")},
}


def of_classes(rows: Rows) -> dict[str, float]:
    """By scikit-learn; of choices too."""
    metrics = pytest.importorskip("sklearn.metrics")
    gold, answers = ([row[name] for row in rows] for name in ("gold", "label"))
    return {
        "accuracy": metrics.accuracy_score(gold, answers),
        "macro_f1": metrics.f1_score(gold, answers, average="macro"),
        "matthews": metrics.matthews_corrcoef(gold, answers),
    }


def of_numbers(rows: Rows) -> dict[str, float]:
    """By scipy."""
    stats = pytest.importorskip("scipy.stats")
    gold, answers = ([row[name] for row in rows] for name in ("gold", "number"))
    pearson, spearman = stats.pearsonr(gold, answers), stats.spearmanr(gold, answers)
    return {"pearson": pearson.statistic, "spearman": spearman.statistic}


def of_tags(rows: Rows) -> dict[str, float]:
    """By nervaluate, which takes well-formed tags alone, and scikit-learn."""
    nervaluate = pytest.importorskip("nervaluate")
    metrics = pytest.importorskip("sklearn.metrics")
    gold, answers = ([row[name] for row in rows] for name in ("gold", "tags"))
    formed = [[to_scheme(tags, "bio2") for tags in side] for side in (gold, answers)]
    types = sorted({tag[2:] for tags in gold for tag in tags} - {""})
    strict = nervaluate.Evaluator(*formed, tags=types, loader="list").evaluate()["overall"]["strict"]
    return {
        **{name: getattr(strict, name) for name in ("precision", "recall", "f1")},
        "token_accuracy": metrics.accuracy_score([*chain(*gold)], [*chain(*answers)]),
    }


def of_spans(rows: Rows) -> dict[str, float]:
    """By SQuAD's definition: no package is installed that has it."""

    def words(text: str) -> list[str]:
        kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", kept).split()

    def f1(gold: list[str], answer: list[str]) -> float:
        common = (Counter(gold) & Counter(answer)).total()
        return 2 * common / (len(gold) + len(answer)) if common else float(gold == answer)

    matches = [[(words(gold), words(row["text"])) for gold in row["gold"]] for row in rows]
    exact = [max(float(gold == answer) for gold, answer in each) for each in matches]
    return {"exact": fmean(exact), "f1": fmean(max(f1(*pair) for pair in each) for each in matches)}


SCORERS = {"classes": of_classes, "choice": of_classes, "number": of_numbers, "tags": of_tags, "span": of_spans}


def scored_again(file: FileSettings, kind: str, folder: Path) -> None:
    """Answer a file by a model of drawn weights; compare the scores told with those of the lines."""
    task = read_task({"kind": kind})
    task = fit_task(task, read_file(task, file))
    exported_model(task, write_model(folder / "model"), folder / "out", {"max_length": 40})
    told, rows = said_of(folder / "out", file, folder / "said.jsonl", labelled=True)
    assert len(rows) == told["ledger"]["accounts"][next(iter(told["ledger"]["accounts"]))]["total"]
    found = SCORERS[kind]([row for row in rows if "unusable" not in row])
    shared = found.keys() & told["scores"].keys()
    assert shared and all(math.isclose(found[name], told["scores"][name], abs_tol=1e-9) for name in shared), (
        found,
        told,
    )


@pytest.mark.long
@pytest.mark.parametrize("name", SETS)
def test_a_published_set_is_scored_again(shared: Path, tmp_path: Path, name: str) -> None:
    """Fails if a digit, a row or a label of a line is not that of the score."""
    folder, split = SETS[name]
    found = find_published_set(name, str(shared / "data" / "tasks" / folder), (split,))
    scored_again(found.files[split], found.published.kind, tmp_path)


@pytest.mark.long
def test_answers_in_texts_are_scored_again(shared: Path, tmp_path: Path) -> None:
    path = shared / "data" / "tasks" / "squad" / "xquad.en.part1.json"
    scored_again(FileSettings(path=str(path), format="squad"), "span", tmp_path)
