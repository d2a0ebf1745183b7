"""Shell completion proposes recipes, and the help of `--source` names every format."""

from pathlib import Path

import pytest

from corpora.sources.files.endings import ENDINGS, KNOWN_ENDINGS
from flows.command.cli import app
from flows.command.help import find_command


def test_recipes_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if Tab after `cloze run` proposes no shipped recipe, no recipe file or no folder, or anything else."""
    for name in ("demand.toml", "demand.lock", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "demands").mkdir()
    monkeypatch.chdir(tmp_path)
    app(["__complete", "run", "dem"], result_action="return_value")
    proposed = [
        line.split("\t")[0] for line in capsys.readouterr().out.splitlines() if line and not line.startswith("\x1f")
    ]
    assert proposed == ["demo", "demand.toml", "demands/"]


def test_the_help_of_source_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if an ending that is read is not in the help of `--source`."""
    for command in ("run", "plan"):
        [argument] = [a for a in find_command(app, command).assemble_argument_collection() if "--source" in a.names]
        assert argument.parameter.help is not None and KNOWN_ENDINGS in argument.parameter.help
    plain = [ending for ending in ENDINGS if ending.count(".") == 1]
    assert len(plain) > 8 and all(ending in KNOWN_ENDINGS for ending in plain)
    packings = {ending.rpartition(".")[2] for ending in ENDINGS if ending.count(".") == 2}
    assert all(f".{packing}" in KNOWN_ENDINGS for packing in packings)
