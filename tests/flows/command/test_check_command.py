"""`cloze check`: what a file looks like, what is seen in it, and what stops commands that learn."""

import json
from pathlib import Path

import pytest

from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.command.tasks.check import checked_first
from flows.command.terminal.help import JSON_KEYS
from trainer.tasks.checking.findings import NAMES
from trainer.tasks.checking.looks import look_at
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
    assert run_command_line(["check", str(train), str(dev)], tmp_path) == 0
    assert "--task classes" in capsys.readouterr().out
    table(dev, 10, 20, ("good", "Bad"))
    assert run_command_line(["check", str(train), str(dev), "--json"], tmp_path) == 1
    report = json.loads(capsys.readouterr().out)
    assert {*JSON_KEYS["check"].split()} == {*report} and report["rows"] == {"train.tsv": 40, "dev.tsv": 20}
    stops = {each["name"] for each in report["findings"] if each["severity"] == "stops"}
    assert stops == {"label-spellings", "evaluation-in-training", "unseen-labels"} <= {*NAMES}
    assert run_command_line(["check", str(train), str(dev), "--accept", "all"], tmp_path) == 0
    with pytest.raises(InputError, match="--accept = 'leaks' is not known"):
        run_command_line(["check", str(train), "--accept", "leaks"], tmp_path)


def test_what_stops_is_one_paragraph_with_its_name(tmp_path: Path) -> None:
    """Fails where a command learns from data whose score means nothing, or what is accepted is not told."""
    train = FileSettings(path=str(table(tmp_path / "train.tsv", 0, 40)))
    dev = FileSettings(path=str(table(tmp_path / "dev.tsv", 0, 40)))
    with pytest.raises(
        InputError, match=r"dev\.tsv: it has the same rows as train\.tsv.*--accept evaluation-in-training"
    ):
        list(checked_first({"kind": "classes"}, [train, dev], accept=()))
    [event] = checked_first({"kind": "classes"}, [train, dev], accept=("evaluation-in-training",))
    assert event["event"] == "warning" and event["message"].startswith("evaluation-in-training: ")


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("a.tsv", "text\tlabel\n" + "some words here\tx\nother words there\ty\n" * 9, "--task classes"),
        ("b.csv", "A plane lands.,A plane took off.,2.5\nHe eats now.,She eats.,4.0\n" * 9,
         "--task number --column text=1 --column second=2 --column label=3 --no-header"),
        ("c.tsv", "gj04\t1\t\tOur friends left.\nks\t0\t*\tThey drank the pub.\nl\t1\t\tHe ate.\n" * 9,
         "--task classes --column text=4 --column label=2 --no-header"),
        ("d.jsonl", '{"question": "who is", "passage": "one of them", "label": true}\n'
         '{"question": "is it so", "passage": "two of them", "label": false}\n' * 9,
         "--task classes --column text=question --column second=passage"),
        ("e.conll", "Oslo B-LOC\n", "--task tags"),
        ("f.jsonl", '{"tokens": ["Oslo"], "ner_tags": ["B-LOC"]}\n',
         "--task tags --column words=tokens --column tags=ner_tags"),
        ("g.json", '{"data": []}', "--task span"),
        ("h.jsonl", '{"query": "a b", "positive": "c d"}\n', "--task retrieval"),
        ("i.jsonl", '{"text": "a text alone"}\n' * 3, "--task next"),
    ],
)  # fmt: skip
def test_a_file_looks_like_its_task(tmp_path: Path, name: str, content: str, flags: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert look_at(FileSettings(path=str(tmp_path / name))).flags == flags


def test_what_looks_like_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4\n", encoding="utf-8")
    (tmp_path / "b.bin").write_text("x", encoding="utf-8")
    for name, message in (("a.csv", "no column that looks like text"), ("b.bin", "does not show which task")):
        with pytest.raises(InputError, match=message):
            look_at(FileSettings(path=str(tmp_path / name)))
