"""`cloze verify` as a user calls it: what it says, its exit codes, and who is refused a store of format 1."""

import json
from pathlib import Path

import pytest
from kept_store import unpacked_store, use_libraries_of

from corpora.errors import InputError
from corpora.store.damage import unseal
from corpora.store.places.place import Place
from flows.command.cli import run_command_line


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a kept store; commands are given there."""
    _, store = unpacked_store(tmp_path / "world")
    use_libraries_of(store, monkeypatch)
    monkeypatch.chdir(tmp_path / "world")
    Path("home").mkdir()
    return tmp_path / "world"


def verify(*arguments: str) -> int:
    return run_command_line(["verify", *arguments], Path("home"))


def test_from_a_damaged_to_a_whole_store(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a step of what the pages say does not lead to the next, or an exit code is another."""
    [path] = (world / "store").glob("tokens/small/*/g002-changes.tokens.arrow")
    table = str(path.relative_to(world / "store"))
    assert verify("store") == 0
    assert capsys.readouterr().out == "100 files of 27 artifacts and 3 runs: 0 faults\n"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    assert verify("store") == 1
    first, count, remedy = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{table}: its bytes are not those that were written (part g002-changes of tokens/small/")
    assert count.endswith(": 1 fault") and "`cloze run`" in remedy and (world / "store" / "damaged.json").exists()
    path.write_bytes(whole)
    assert verify(f"store/{table.rsplit('/', 1)[0]}") == 0
    assert not (world / "store" / "damaged.json").exists()


@pytest.mark.parametrize(
    "command",
    ["plan small.toml", "inspect store", "trace store 0", "report store", "fill store [MASK]", "vocabulary show store",
     "verify store"],
)  # fmt: skip
def test_a_store_of_format_1_is_refused(world: Path, command: str) -> None:
    """Fails if a command shows a traceback, or builds over what it cannot read. In format 1 nothing was sealed."""
    for path in [*Path("store").glob("*/*/*/manifest.json"), *Path("store").glob("*/*/*/parts/*.json")]:
        path.write_text(json.dumps({**unseal(path.read_bytes(), ""), "format_version": 1}, indent=1))
    before = Place("store").list_files("")
    with pytest.raises(InputError, match=r"is of format 1.*give the recipe another store"):
        run_command_line(command.split(), world / "home")
    assert Place("store").list_files("") == before


def test_no_store_is_made_where_none_is(world: Path) -> None:
    """Fails if a folder is made for a list of damaged files."""
    with pytest.raises(InputError, match=r"There is no artifact at .*nowhere"):
        verify("nowhere")
    assert not Place("nowhere").list_files("")
