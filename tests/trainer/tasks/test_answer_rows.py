"""Answers to a file's rows: a line for each row, joined to it and scored again; and what a finished run is."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_tags import tags_job
from small_tasks import kept_of, new_job, run, said_of, sentences, write_json_rows, write_rows

from corpora.errors import InputError
from trainer.tasks.data import read_file
from trainer.tasks.finetuning.held_out import assign_folds
from trainer.tasks.formats.records import KEEP_PREFIX, FileSettings
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, compute_class_scores, compute_multilabel_scores
from trainer.tasks.settings import FinetuneJob

Learnt = tuple[Path, FinetuneJob, dict[str, Any]]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learnt]:
    """A folder with a model that learnt from a column `body`, at 12 tokens, under an umask of 027."""
    folder, before = tmp_path_factory.mktemp("rows"), os.umask(0o027)
    job = new_job(folder, rows=40, max_length=12)
    tables = [write_rows(folder / f"{n}.tsv", sentences(40, n), ("body", "label")) for n in (1, 2)]
    files = [replace(table, columns={"text": "body"}) for table in tables]
    job = replace(job, training=files[0], evaluation=files[1])
    try:
        yield folder, job, run(job)
    finally:
        os.umask(before)


def test_each_row_has_a_line_with_what_was_kept(learnt: Learnt) -> None:
    """Fails if answers cannot be joined to their rows, or `predict` has forgotten where the texts are."""
    folder, _, _ = learnt
    rows = [("a good film", "7", "good"), (" ", "8", "bad"), ("bad", "", "ugly"), ("a film", "9", "bad")]
    file = write_rows(folder / "new.tsv", rows, ("body", "customer", "label"))
    file = replace(file, columns={f"{KEEP_PREFIX}customer": "customer"}, max_unusable=0.5)
    told, lines = said_of(folder / "out", file, folder / "said.jsonl", labelled=True)
    assert [(line["line"], line["kept"]["customer"]) for line in lines] == [(2, "7"), (3, "8"), (4, ""), (5, "9")]
    assert lines[1] == {"line": 3, "kept": {"customer": "8"}, "unusable": "empty text"}
    judged = [line for line in lines if "unusable" not in line]
    assert [line["gold"] for line in judged] == ["good", "ugly", "bad"] and judged[1]["score"] == 0.0
    right = sum(line["gold"] == line["label"] for line in judged)
    assert told["scores"]["accuracy"] == right / 3 and told["ledger"]["figures"]["unknown"] == 1
    assert all(len(str(line["probabilities"]["good"])) > 10 for line in judged), "all digits"
    own = replace(file, format="tsv", columns={"text": "customer"}, max_unusable=1.0)
    assert "label" in said_of(folder / "out", own, folder / "own.jsonl")[1][0], "a format that is named is its own"


def test_a_finished_run_is_not_done_again(learnt: Learnt, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if the same command fails or learns again, or another one takes the folder for its own."""
    folder, job, record = learnt
    before = (folder / "out" / "model.safetensors").stat().st_mtime_ns
    assert run(job) == record
    [event] = map(json.loads, capsys.readouterr().out.splitlines())
    assert event["again"] and event["accuracy"] == kept_of(record)["accuracy"]
    assert (folder / "out" / "model.safetensors").stat().st_mtime_ns == before
    for other in (replace(job, settings=replace(job.settings, seed=1)), replace(job, training=job.evaluation)):
        with pytest.raises(InputError, match="is not empty"):
            run(other)


def test_what_is_exported_is_read_as_it_was_judged(learnt: Learnt) -> None:
    """Fails if only the owner can read the weights, or a tokenizer cuts elsewhere than the model was judged."""
    out = learnt[0] / "out"
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o640}
    assert json.loads((out / "tokenizer_config.json").read_bytes())["model_max_length"] == 12


def test_without_a_file_to_judge_by_a_part_is_held_out(learnt: Learnt) -> None:
    """Fails if a text, or a group, is on both sides, or rows are lost between them."""
    folder, job, _ = learnt
    rows = [(text, label, f"author {number % 7}") for number, (text, label) in enumerate(sentences(30, 1))] * 2
    file = write_rows(folder / "whole.tsv", rows, ("body", "label", "author"))
    file = replace(file, columns={"text": "body", f"{KEEP_PREFIX}author": "author"})
    alone = replace(job, output=str(folder / "alone"), training=file, evaluation=file, folds=5, fold=1, group="author")
    accounts = {name: each["ledger"]["accounts"]["rows"] for name, each in run(alone)["files"].items()}
    judged = accounts["evaluation"]["total"]
    assert accounts["training"] == {"total": 60, "outcomes": {"given": 60 - judged, "held out": judged}}
    assert judged in (16, 18), "one or two of seven authors"
    with pytest.raises(InputError, match="has 7 groups of examples, too few for 8 parts"):
        run(replace(alone, output=str(folder / "few"), folds=8))
    _, lines = said_of(folder / "alone", FileSettings(path=file.path), folder / "alone.jsonl")
    assert len(lines) == 60, "the column of groups is not needed again"


def test_folds_are_even_and_keep_groups_together() -> None:
    """Fails if a group is in two folds, folds differ by more than a group, or the order of the rows decides."""
    groups = [f"text {number % 50}" for number in range(200)]
    folds = assign_folds(groups, 4, 42)
    assert len({*zip(groups, folds, strict=True)}) == 50
    assert {folds.count(fold) for fold in range(4)} <= {48, 52}
    assert assign_folds(groups[::-1], 4, 42) == folds[::-1] != assign_folds(groups, 4, 43)[::-1]
    assert SpanTask().find_source(SpanTask().make_example({"question": "q", "context": "c"}, False)) == "c"


# Labels that training did not have.


def test_an_unknown_label_is_a_wrong_answer() -> None:
    """By hand, as scikit-learn counts: 99 right of 200, two of which the model cannot know."""
    gold, answers = [0] * 99 + [1] * 99 + [2, 3], [0] * 198 + [1, 0]
    scores = compute_class_scores(gold, answers, 2)
    assert scores["accuracy"] == 0.495 and scores["f1"] == 0.0
    assert scores["macro_f1"] == pytest.approx(2 * 99 / (99 + 199) / 4)
    task = ClassesTask(labels=("a", "b"), multi_label=True)
    examples = [task.make_example({"text": "x", "label": label}, True) for label in ("a", "a,c")]
    predictions: Any = [[1.0, -1.0], [1.0, -1.0]]
    table = ([[1, 0, 0], [1, 0, 1]], [[1, 0, 0], [1, 0, 0]])
    assert task.compute_scores(examples, predictions) == compute_multilabel_scores(*table)


def test_an_unknown_type_of_span_is_a_span_that_is_missed(tmp_path: Path) -> None:
    """Fails if such a sentence leaves the score, or takes its answer with it."""
    record = run(tags_job(tmp_path, rows=20))
    rows = [{"words": ["good", "film"], "tags": ["B-LIKE", "I-LIKE"]}, {"words": ["Oslo"], "tags": ["B-PLACE"]}]
    told, lines = said_of(tmp_path / "out", write_json_rows(tmp_path / "x.jsonl", rows), tmp_path / "said", True)
    assert record["task"]["units"] == "spans" and [line["gold"] for line in lines] == [row["tags"] for row in rows]
    totals = {name: sum(line["score"][name] for line in lines) for name in lines[0]["score"]}
    assert totals["labelled"] == 2 and told["scores"]["recall"] == totals["right"] / 2


@pytest.mark.parametrize(("odd", "word"), [("X-PER", 2), ("b-PER", 2), ("0", 1), ("PER", 1)])
def test_a_slip_among_tags_of_spans_is_asked_about(tmp_path: Path, odd: str, word: int) -> None:
    """Fails if one odd tag makes parts of speech of named entities."""
    tags = ["B-PER", odd] if word == 2 else [odd, "B-PER"]
    rows = [{"words": ["a", "b"], "tags": each} for each in (["O", "B-PER"], tags)]
    file = write_json_rows(tmp_path / "x.jsonl", rows)
    with pytest.raises(InputError, match=rf"x\.jsonl, line 2: the tag '{odd}' of word {word} is not one of a span"):
        run(replace(tags_job(tmp_path), training=file))
    examples = read_file(TagsTask(), file).examples
    assert TagsTask(units="words").fit(examples, "x").units == "words"
