"""`--json`: one document on standard output and nothing else, with the keys that the reference lists."""

import json
from typing import Any

import pytest
from recorded_run import record
from small_recipe import Run, World

from flows.command.cli import app, run_command_line
from flows.command.help import JSON_KEYS, find_command, list_command_names

# With a model or labelled files: their own tests read the document.
TRAINS = {"check", "predict", "evaluate", "fill", "embed"}

COMMANDS = {
    "preview": "preview raw/notes -n 1",
    "plan": "plan small.toml --quick",
    "status": "status",
    "report": "report",
    "trace": "trace store 0",
    "doctor": "doctor",
    "inspect": "inspect store",
    "runs": "runs",
    "diff": "diff 483910 772041",
    "verify": "verify store",
    "release": "release 483910 --name prod",
    "releases": "releases",
    "rollback": "rollback prod --to 1",
    "gc": "gc",
    "export": "export store out --kind shards",
    "dedup": "dedup raw/pages clean --text body",
    "shards materialise": "shards materialise store --epoch 0 --to epoch",
    "vocabulary show": "vocabulary show small",
    "vocabulary compare": "vocabulary compare small small",
    "vocabulary adapt": "vocabulary adapt small --corpus raw/pages --text body --output new --tokens 2 --min-count 1",
}


def keys_of(text: str) -> tuple[bool, set[str]]:
    """Whether a document is a list, and the keys of it, or of each of its items, as the reference has them."""
    plain = text.partition("; ")[0]
    return plain.startswith("each: "), set(plain.removeprefix("each: ").split())


def test_every_command_with_json_is_listed() -> None:
    """Fails if a command takes --json and its keys are in no list, or it is in no test."""
    takes = {
        name
        for name in list_command_names(app)
        if any("--json" in argument.names for argument in find_command(app, name).assemble_argument_collection())
    }
    assert takes == set(JSON_KEYS) == TRAINS | set(COMMANDS)
    assert all(keys_of(text)[1] for text in JSON_KEYS.values())


@pytest.mark.slow
def test_each_prints_one_document(
    first: Run, built: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails if a line gets between the document, or a key is renamed. One copy of a store serves all."""
    monkeypatch.chdir(built.folder)
    monkeypatch.setenv("CLOZE_HOME", str(built.folder))
    for moment in ("20260101T000000772041", "20260102T000000483910"):
        record(first, f"{moment}-small")
    for name, command in COMMANDS.items():
        capfd.readouterr()
        code = run_command_line([*command.split(), "--json"], built.folder)
        out = capfd.readouterr().out
        assert code == 0 or name == "doctor", name
        document: Any = json.loads(out)
        is_list, keys = keys_of(JSON_KEYS[name])
        assert isinstance(document, list) == is_list, name
        for item in document if is_list else [document]:
            assert keys <= set(item), (name, keys - set(item))
        assert document, name
