"""`cloze check`: what is seen in a file, and what stops commands that learn."""

import json
from pathlib import Path

import pytest

from corpora.errors import InputError
from flows.command.check import check_data_first
from flows.command.cli import run_command_line
from flows.command.help import JSON_KEYS
from trainer.tasks.checking.findings import NAMES
from trainer.tasks.formats.records import FileSettings

ROW = "a sentence number {n} of several words\t{label}\n"


def table(
    path: Path, first: int, number: int, labels: tuple[str, ...] = ("good", "bad"), head: str = "text\tlabel\n"
) -> Path:
    rows = [ROW.format(n=n, label=labels[n % len(labels)]) for n in range(first, first + number)]
    path.write_text(head + "".join(rows), encoding="utf-8")
    return path


def test_the_command_names_what_it_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, dev = table(tmp_path / "train.tsv", 0, 40), table(tmp_path / "dev.tsv", 40, 20)
    check = ["check", str(train), "--task", "classes"]
    assert run_command_line([*check, str(dev)], tmp_path) == 0
    assert "task classes, 2 classes" in capsys.readouterr().out
    table(dev, 10, 20, ("good", "Bad"))
    assert run_command_line([*check, str(dev), "--json"], tmp_path) == 1
    report = json.loads(capsys.readouterr().out)
    assert {*JSON_KEYS["check"].split()} == {*report} and report["rows"] == {"train.tsv": 40, "dev.tsv": 20}
    stops = {each["name"] for each in report["findings"] if each["severity"] == "stops"}
    assert stops == {"label-spellings", "evaluation-in-training", "unseen-labels"} <= {*NAMES}
    assert run_command_line([*check, str(dev), "--accept", "all"], tmp_path) == 0
    with pytest.raises(InputError, match="--accept = 'leaks' is not known"):
        run_command_line([*check, "--accept", "leaks"], tmp_path)


def test_what_stops_is_one_paragraph_with_its_name(tmp_path: Path) -> None:
    """Fails if a command learns from data whose score means nothing, or what is accepted is not told."""
    train = FileSettings(path=str(table(tmp_path / "train.tsv", 0, 40)))
    dev = FileSettings(path=str(table(tmp_path / "dev.tsv", 0, 40)))
    with pytest.raises(
        InputError, match=r"dev\.tsv: it has the same rows as train\.tsv.*--accept evaluation-in-training"
    ):
        list(check_data_first({"kind": "classes"}, [train, dev], accept=()))
    [event] = check_data_first({"kind": "classes"}, [train, dev], accept=("evaluation-in-training",))
    assert event["event"] == "warning" and event["message"].startswith("evaluation-in-training: ")
