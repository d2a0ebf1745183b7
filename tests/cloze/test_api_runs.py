"""Runs of the Python API: a run of the command, and what it left."""

from pathlib import Path

import pytest
from small_recipe import prose

import cloze
from cloze.runs import _run_command
from flows.command import arguments


def test_a_wrong_recipe_is_refused_at_once(tmp_path: Path) -> None:
    """Fails if a mistake in a recipe starts a run, or is told otherwise than by an InputError."""
    with pytest.raises(cloze.InputError, match="Cannot read the recipe"):
        cloze.run(tmp_path / "none.toml")
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[[source]]\nkind = "files"\nname = "a"\npath = "raw"\n[shards]\nlenght = 64\n')
    with pytest.raises(cloze.InputError, match="length"):
        cloze.run(recipe)


def test_a_program_keeps_its_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a call hides pandas from pyarrow for good, as a process of the command does for itself."""
    calls: list[str] = []
    monkeypatch.setattr(arguments, "hide_pandas_from_pyarrow", lambda: calls.append("hidden"))
    with pytest.raises(cloze.InputError):
        cloze.run(tmp_path / "none.toml")
    with pytest.raises(cloze.InputError):
        arguments.load_recipe(str(tmp_path / "none.toml"))
    assert calls == ["hidden"]


def test_a_notebook_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the variables that Jupyter sets put the codes of a terminal into what a run prints."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, output, _ = _run_command("new", "--help", shown=False)
    assert code == 0 and "template" in output and "\x1b" not in output


@pytest.mark.slow
def test_a_folder_is_run_and_its_results_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run's results cannot be had, a second run builds again, or what a run refuses is no InputError."""
    monkeypatch.chdir(tmp_path)
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(12):
        (raw / f"{number}.txt").write_text(prose(number))
    run = cloze.run(raw, settings={"shards.length": 64, "vocabulary.size": 300}, workers=1, progress=False, watch=False)
    assert "shards/raw" in run.built and Path(run.report).is_file()
    assert len(run.shards) > 0 and [*run.shards.vocabulary] == [*run.vocabulary]
    assert cloze.run(raw, settings={"shards.length": 64, "vocabulary.size": 300}, progress=False).built == []
    with pytest.raises(cloze.InputError, match="no models"):
        _ = run.model
    (raw / "0.txt").unlink()
    for path in raw.iterdir():
        path.write_bytes(b"")
    with pytest.raises(cloze.InputError):
        cloze.run(raw, store=tmp_path / "other", progress=False)
