"""Shell completion proposes commands, options and recipes, and the help of `--source` names every format."""

import subprocess
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.sources.files.endings import ENDINGS, KNOWN
from flows.command.cli import app
from flows.command.reference import command_of
from flows.command.terminal.completion import write_completion


def test_bash_completes_a_command_with_the_script(tmp_path: Path) -> None:
    """Fails where bash cannot read the script, or proposes something else after `cloze pre`."""
    path = write_completion(app, "bash", tmp_path / "scripts" / "cloze")
    asked = 'source "$0"; COMP_WORDS=(cloze pre); COMP_CWORD=1; _cloze; echo "${COMPREPLY[@]}"; complete -p cloze'
    done = subprocess.run(["bash", "-c", asked, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["prepare preview predict", "complete -o default -F _cloze cloze"]
    assert done.stderr == ""


def test_recipes_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails where Tab after `cloze run` proposes no shipped recipe, no recipe file or no folder, or anything else."""
    for name in ("demand.toml", "demand.lock", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "demands").mkdir()
    monkeypatch.chdir(tmp_path)
    app(["__complete", "run", "dem"], result_action="return_value")
    proposed = [
        line.split("\t")[0] for line in capsys.readouterr().out.splitlines() if line and not line.startswith("\x1f")
    ]
    assert proposed == ["demo", "demand.toml", "demands/"]


def test_a_script_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Fails where it ends with a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Cannot write .*--output"):
        write_completion(app, "bash", tmp_path / "file" / "cloze")


def test_the_help_of_source_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where an ending that is read is not in the help of `--source`."""
    for command in ("run", "plan"):
        [argument] = [a for a in command_of(app, command).assemble_argument_collection() if "--source" in a.names]
        assert argument.parameter.help is not None and KNOWN in argument.parameter.help
    plain = [ending for ending in ENDINGS if ending.count(".") == 1]
    assert len(plain) > 8 and all(ending in KNOWN for ending in plain)
    packings = {ending.rpartition(".")[2] for ending in ENDINGS if ending.count(".") == 2}
    assert all(f".{packing}" in KNOWN for packing in packings)
