"""What a benchmark takes, from answers that are written by hand."""

import json
from pathlib import Path

from trainer.tasks.formats.records import FileSettings
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.suites.judged import JudgedSplit, write_judged
from trainer.tasks.suites.runs import SuiteRun
from trainer.tasks.suites.submitting import submission_files
from trainer.tasks.suites.suite import SuiteSplit


def run_with(folder: Path, rows: list[dict[str, object]], split: str, of: str, unusable: int = 0) -> SuiteRun:
    """A run that has answered one split without labels."""
    file = FileSettings(path="test.tsv")
    job = FinetuneJob(model="", output="", task={}, training=file, evaluation=file)
    asked = SuiteSplit(name=split, file=file, labelled=False, metrics=(), set=of)
    folder.mkdir()
    run = SuiteRun(task=of, seed=1, folder=str(folder), job=job, splits=(asked,))
    run.answers(asked).write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_judged(run.judged(asked), JudgedSplit(sha256="", examples=len(rows), unusable=unusable))
    return run


def test_files_have_the_names_and_spellings_of_glue(tmp_path: Path) -> None:
    """The diagnostic set is answered by the model of MNLI; STS-B's numbers are within its scale."""
    runs = {
        "ax": run_with(tmp_path / "ax", [{"id": "0", "label": "entailment"}], "glue/ax test", "glue/ax"),
        "mm": run_with(tmp_path / "mm", [{"id": "9", "label": "neutral"}], "glue/mnli-mm test", "glue/mnli-mm"),
        "stsb": run_with(tmp_path / "stsb", [{"id": "0", "number": 5.41234}, {"id": "1", "number": 2.123456}],
                         "test", "glue/stsb"),
    }  # fmt: skip
    found = {file.name: "".join(file.lines) for file in submission_files(runs)}
    assert found == {
        "AX.tsv": "index\tprediction\n0\tentailment\n",
        "MNLI-mm.tsv": "index\tprediction\n9\tneutral\n",
        "STS-B.tsv": "index\tprediction\n0\t5.0\n1\t2.123\n",
    }


def test_a_file_that_would_lack_answers_is_not_made(tmp_path: Path) -> None:
    runs = {
        "rte": run_with(tmp_path / "rte", [{"id": "0", "label": "entailment"}], "test", "glue/rte", unusable=2),
        "qnli": run_with(tmp_path / "qnli", [{"line": 2, "label": "entailment"}], "test", "glue/qnli"),
    }
    lacking, nameless = submission_files(runs)
    assert not lacking.lines and lacking.why.startswith("2 records of test.tsv could not be used")
    assert not nameless.lines and "has no id" in nameless.why
