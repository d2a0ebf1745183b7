"""`cloze evaluate` around the trainer: what it writes, and what it knows of the corpus behind a model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from small_recipe import new_world, note, page, prose
from small_suites import answered

from corpora.errors import InputError
from corpora.store.tables import read_table
from flows.command.tasks import evaluate as evaluating
from flows.command.tasks.evaluate import check_asked
from flows.command.tasks.options import EvaluationAsked
from flows.command.tasks.overlap import began_elsewhere, overlaps, provenance_at
from flows.command.terminal.help import JSON_KEYS
from flows.export.cards.model_card import TUNED
from flows.export.exported import provenance_of
from flows.run.store_address import find_artifacts, newest
from trainer.tasks.suites.judged import JudgedSplit, write_judged
from trainer.tasks.suites.runs import SuiteRun, digest_of
from trainer.tasks.suites.suite import read_suite

SUITE = """
name = "small"
seeds = [1, 2]
average = true
[task."glue/rte"]
"""


def new_suite(folder: Path) -> Path:
    """A published set, and two folders that look like models."""
    pair = "index\tsentence1\tsentence2"
    rows = "".join(f"{n}\tthe <b>first</b> sentence {n}\tthe second\tentailment\n" for n in range(60))
    (folder / "RTE").mkdir()
    for name in ("train", "dev"):
        (folder / "RTE" / f"{name}.tsv").write_text(f"{pair}\tlabel\n{rows}")
    (folder / "RTE" / "test.tsv").write_text(f"{pair}\n7\ta\tb\n")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text('{"model_type": "bert"}')
        (folder / name / "model.safetensors").write_text(name)
    (folder / "suite.toml").write_text(SUITE)
    return folder / "suite.toml"


def learn_by_hand(runs: list[SuiteRun], tell: Any) -> None:
    """Write what the trainer leaves: the model whose weights are "one" is right more often."""
    for run in runs:
        better = (Path(run.job.model) / "model.safetensors").read_text() == "one" and not run.job.first_weights
        Path(run.job.output).mkdir(parents=True)
        (Path(run.folder) / "made_by").write_text(run.job.model)
        settings = dict.fromkeys(TUNED, 1)
        (Path(run.job.output) / "finetune.json").write_text(json.dumps({"settings": settings | {"epochs": 4}}))
        for split in run.splits:
            found = answered(55 if better else 20) if split.labelled else JudgedSplit(sha256="", examples=1)
            write_judged(run.judged(split), JudgedSplit(**{**fields_of(found), "sha256": digest_of(split)}))
            run.answers(split).write_text(json.dumps({"id": "7", "label": "entailment"}) + "\n")
        tell(f"learnt {run.task} {run.seed}")


def fields_of(judged: JudgedSplit) -> dict[str, Any]:
    return {name: getattr(judged, name) for name in JudgedSplit.__dataclass_fields__}


def test_tables_pages_and_answers_are_written_and_nothing_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluating, "learn", learn_by_hand)
    suite, output, told = str(new_suite(tmp_path)), tmp_path / "out", list[str]()
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    asked = EvaluationAsked(
        model=one, suite=suite, data=tmp_path, output=output, compare=two, card=tmp_path / "carded", accept=("all",)
    )
    with pytest.raises(InputError, match=r"has the label 'entailment'.*--accept one-class --accept evaluation-in-tra"):
        evaluating.evaluate_model(replace(asked, accept=()), told.append)
    told.clear()
    result = evaluating.evaluate_model(asked, told.append)
    assert result.average == pytest.approx(55 / 60) and sum(line.startswith("learnt") for line in told) == 4
    document = json.loads((output / "evaluation.json").read_text())
    assert set(JSON_KEYS["evaluate"].split()) <= set(document)
    assert document["rows"][0]["median"] == pytest.approx(55 / 60) and document["rows"][0]["overlap"] is None
    assert document["comparison"]["tasks"][0]["adjusted"] < 0.05
    assert "91.7" in (output / "evaluation.html").read_text()
    begins = told.index(f"small: {tmp_path / 'one'}, seeds 1, 2")
    assert told.pop() == f"Model with its card: {tmp_path / 'carded'}"
    assert "| glue/rte | 4 | 1 | 1 |" in (tmp_path / "carded" / "README.md").read_text()
    assert (tmp_path / "carded" / "model.safetensors").read_text() == "one"
    lines = (output / "evaluation.txt").read_text().splitlines()
    assert lines == told[begins:-2] and told[-2].startswith("Answers to hand in: ") and "Holm" in lines[-3]
    with ZipFile(output / "submission.zip") as packed:
        assert packed.namelist() == ["RTE.tsv"] and packed.read("RTE.tsv") == b"index\tprediction\n7\tentailment\n"
    told.clear()
    written = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    evaluating.evaluate_model(replace(asked, card=None), told.append)
    assert not any(line.startswith("learnt") for line in told) and f"{one}: 2 of 2 runs are done" in told
    assert written == {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    check_models(replace(asked, card=None, onnx=True))
    evaluating.evaluate_model(replace(asked, card=None, compare=None, control=True), told.append)
    worth = "Pre-training was worth it: surely better than from first weights on 1 of 1 compared, surely worse on 0"
    assert any(line.startswith(worth) for line in told) and worth in (output / "evaluation.html").read_text()


def check_models(asked: EvaluationAsked) -> None:
    """Check that what the trainer wrote of a median run is in text, document and page, and is not written again."""
    [folder] = (path for path in (asked.output / "runs").iterdir() if path.name.startswith("glue-rte-1-")
                if "one" in (path / "made_by").read_text())  # fmt: skip
    row = {"parameters": 1_000, "memory_bytes": 9 << 20, "milliseconds": 2.5}
    models = [{**row, "model": name, "file_bytes": size, "difference": off, "scores": {"accuracy": 0.9, "f1": 0.8}}
              for name, size, off in (("torch", 4_000, 0.0), ("model.int8.onnx", 1_000, 0.01))]  # fmt: skip
    (folder / "onnx").mkdir()
    (folder / "onnx" / "onnx.json").write_text(json.dumps({"models": models}))
    told = list[str]()
    evaluating.evaluate_model(asked, told.append)
    assert any(line.split() == ["glue/rte", "model.int8.onnx", "accuracy", "90.0", "1,000", "1.0", "kB", "9.4", "MB",
                                "2.5", "ms", "0.01"] for line in told)  # fmt: skip
    assert json.loads((asked.output / "evaluation.json").read_text())["models"] == {"glue/rte": models}
    assert "On a small machine" in (asked.output / "evaluation.html").read_text()


def test_what_is_no_model_is_refused_before_anything_is_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "learn", learn_by_hand)
    suite = str(new_suite(tmp_path))
    (tmp_path / "one" / "model.safetensors").unlink()
    for model, message in (
        ("one", "holds no weights"),
        ("none", "There is no folder"),
        ("RTE", "There is no models artifact"),
    ):
        with pytest.raises(InputError, match=message):
            asked = EvaluationAsked(model=str(tmp_path / model), suite=suite, data=tmp_path, output=tmp_path / "out")
            evaluating.evaluate_model(asked, print)
    with pytest.raises(InputError, match="itself: give another model"):
        check_asked(EvaluationAsked("two", suite, compare="two"))
    with pytest.raises(InputError, match=r"--license = 'MIT' is not known"):
        check_asked(EvaluationAsked("two", suite, license="MIT"))
    with pytest.raises(InputError, match="is not empty"):
        check_asked(EvaluationAsked("two", suite, card=tmp_path))


def test_items_that_a_model_has_read_are_counted(tmp_path: Path) -> None:
    """Fails where held-out documents count, which training does not read."""
    world = new_world(tmp_path)
    world.put("pages", "a", [page(str(number), prose(number)) for number in range(30)])
    world.put("notes", "a", [note(number, prose(100 + number)) for number in range(10)])
    world.run()
    made = provenance_of(newest(find_artifacts(world.place.address, "shards")))
    assert made.corpus is not None
    rows = [row for batch in read_table(made.place, made.corpus, "documents", ("text", "held_out"))
            for row in batch.to_pylist()]  # fmt: skip
    read = next(row["text"] for row in rows if not row["held_out"] and len(row["text"].split()) > 30)
    kept = next(row["text"] for row in rows if row["held_out"] and len(row["text"].split()) > 30)
    items = [" ".join(text.split()[4:24]) for text in (read, kept)] + ["too short"]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + "".join(f"{text}\tx\n" for text in items))
    (tmp_path / "suite.toml").write_text('[task.mine]\nkind = "classes"\ntrain = "train.tsv"\ndev = "dev.tsv"\n')
    suite = read_suite(str(tmp_path / "suite.toml"))
    found = overlaps(suite, made)["mine", "dev"]
    assert (found.items, found.sought, found.met) == (3, 2, 1) and not began_elsewhere(made)
    assert overlaps(suite, None) == {} and provenance_at(str(tmp_path / "raw")) is None
