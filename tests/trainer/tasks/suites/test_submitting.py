"""Benchmarks take the files that are made of answers written by hand."""

from pathlib import Path

from small_suites import run_with

from trainer.tasks.formats.records import FileSettings
from trainer.tasks.suites.submitting import submission_files


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


def test_diagnostic_sets_are_handed_in_with_their_labels_known(tmp_path: Path) -> None:
    """AX-b has labels, and is answered all the same; MRPC of its authors has labels, and no ids to answer."""
    ids = FileSettings(path="AX-b.jsonl", columns={"label": "label", "id": "idx"})
    rows = [{"id": 0, "label": "entailment"}]
    runs = {
        "axb": run_with(tmp_path / "axb", rows, "superglue/axb test", "superglue/axb", file=ids, labelled=True),
        "mrpc": run_with(tmp_path / "mrpc", [{"label": "1"}], "test", "glue/mrpc", labelled=True),
    }
    (file,) = submission_files(runs)
    assert (file.name, file.lines) == ("AX-b.jsonl", ('{"idx": 0, "label": "entailment"}\n',))


def test_a_file_that_would_lack_answers_is_not_made(tmp_path: Path) -> None:
    runs = {
        "rte": run_with(tmp_path / "rte", [{"id": "0", "label": "entailment"}], "test", "glue/rte", unusable=2),
        "qnli": run_with(tmp_path / "qnli", [{"line": 2, "label": "entailment"}], "test", "glue/qnli"),
    }
    lacking, nameless = submission_files(runs)
    assert not nameless.lines and "has no id" in nameless.why
    assert not lacking.lines and lacking.why.startswith("2 records of test.tsv could not be used")
    run = run_with(tmp_path / "three", [{"id": str(number), "label": "entailment"} for number in range(3)],
                   "test", "glue/rte")  # fmt: skip
    path = run.answers(run.splits[0])
    whole = path.read_text()
    for text, why in (
        (whole[: whole.rindex("{")], "has 2 answers, and 3 records"),
        (whole[:-9], "line 3, is incomplete"),
        (whole.replace('"2"', '"1"'), "Record 1 is answered twice"),
    ):
        path.write_text(text)
        (damaged,) = submission_files({"rte": run})
        assert not damaged.lines and why in damaged.why
    run.judged(run.splits[0]).unlink()
    (gone,) = submission_files({"rte": run})
    assert not gone.lines and "are gone" in gone.why
