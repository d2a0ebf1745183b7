"""Predicted lines as the official scripts of SQuAD read them."""

import json
from pathlib import Path

import pytest

from corpora.errors import InputError
from flows.command.tasks.predict import write_official


def test_answers_and_probabilities_are_files_of_their_own(tmp_path: Path) -> None:
    """The second one is written of SQuAD 2.0 alone; a task without answers is refused."""
    rows = [{"line": 1, "id": "q1", "text": "Malm\u00f6"}, {"line": 1, "id": "q2", "text": ""}]
    lines, official = tmp_path / "said.jsonl", tmp_path / "said.json"
    told: list[str] = []
    for odds in ({}, {"null_odds": 2e6}):
        lines.write_text("".join(json.dumps({**row, **odds}) + "\n" for row in rows))
        write_official(lines, official, "span", told.append)
        assert json.loads(official.read_text()) == {"q1": "Malm\u00f6", "q2": ""}
        assert (tmp_path / "said.na_prob.json").exists() == bool(odds)
    assert json.loads((tmp_path / "said.na_prob.json").read_text()) == {"q1": 1.0, "q2": 1.0}
    assert len(told) == 3
    with pytest.raises(InputError, match="the model's task is 'classes': leave it out"):
        write_official(lines, official, "classes", told.append)
