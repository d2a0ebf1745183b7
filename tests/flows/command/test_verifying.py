"""`cloze verify` as a user calls it: what it says, its exit codes, and who is refused a store of format 1."""

import shutil
from pathlib import Path

import pytest
from format_1_store import unpacked_format_1_store, use_libraries_of

from corpora.errors import InputError
from corpora.store.places import Place
from flows.command.cli import run_command_line

TABLE = "tokens/small/68aedaad0fb20f80ea8b1253/g002-changes.tokens.arrow"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store of format 1; commands are given there."""
    _, store = unpacked_format_1_store(tmp_path / "world")
    use_libraries_of(store, monkeypatch)
    monkeypatch.chdir(tmp_path / "world")
    Path("home").mkdir()
    return tmp_path / "world"


def verify(*arguments: str) -> int:
    return run_command_line(["verify", *arguments], Path("home"))


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_from_format_1_to_a_repaired_store(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where a step of what the pages say does not lead to the next, or an exit code is another."""
    assert verify("--stamp", "store") == 0
    assert "27 artifacts and 52 parts brought to format 2: 0 faults" in capsys.readouterr().out
    assert verify("store") == 0
    assert capsys.readouterr().out == "97 files of 27 artifacts and 3 runs: 0 faults\n"
    damage(world / "store" / TABLE)
    assert verify("store") == 1
    first, count, remedy = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{TABLE}: its bytes are not those that were written (part g002-changes of tokens/small/")
    assert count.endswith(": 1 fault") and "`cloze verify --repair store`" in remedy
    assert verify("--repair", "store") == 0
    assert capsys.readouterr().out.endswith("97 files of 27 artifacts and 3 runs: 1 fault, 0 left\n")
    assert verify(f"store/{TABLE.rsplit('/', 1)[0]}") == 0


def test_a_damaged_file_of_format_1_is_named_with_what_to_do(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where the manifests that are left are not named, or the rest is not stamped."""
    damage(world / "store" / TABLE)
    assert verify("--stamp", "store") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{TABLE}: its bytes are not those that were written"
    left = [line.split(" is left as it is")[0] for line in lines if "is left as it is, of format 1" in line]
    assert left and all(path.startswith("tokens/small/") for path in left)
    assert lines[-1].startswith(f"{27 - len(left)} artifacts") and lines[-1].endswith(": 1 fault")
    (world / "store" / TABLE).unlink()
    for path in left:
        (world / "store" / path).unlink()
    assert verify("--stamp", "store") == 0
    assert verify("store") == 0


@pytest.mark.parametrize(
    "command",
    [
        ["plan", "small.toml"],
        ["inspect", "store"],
        ["trace", "store", "0"],
        ["report", "store"],
        ["fill", "store", "[MASK]"],
        ["vocabulary", "show", "store"],
        ["verify", "store"],
        ["verify", "--repair", "store"],
    ],
)
@pytest.mark.parametrize("half", [False, True])
def test_a_store_of_format_1_is_refused_with_the_command_to_give(world: Path, command: list[str], half: bool) -> None:
    """Fails where a command shows a traceback, or works on half a store. `half`: the migration was killed."""
    if half:
        shutil.copytree(world / "store", world / "whole")
        assert verify("--stamp", "whole") == 0
        for path in Path("whole").glob("*/*/*/parts/*.json"):
            if path.parts[1] != "vocabularies":
                shutil.copy(path, Path("store", *path.parts[1:]))
    with pytest.raises(InputError, match=r"is of format 1.*`cloze verify --stamp STORE`"):
        run_command_line(command, world / "home")


def test_one_thing_at_a_time(world: Path) -> None:
    """Fails where one of two contradicting options is ignored, or --stamp works on a part of a store."""
    with pytest.raises(InputError, match="give one of them"):
        verify("--repair", "--stamp", "store")
    with pytest.raises(InputError, match="give store instead of store/tokens/small"):
        verify("--stamp", "store/tokens/small")
    for arguments in (["nowhere"], ["--repair", "nowhere"], ["--stamp", "nowhere"]):
        with pytest.raises(InputError, match=r"There is no (artifact|store) at .*nowhere"):
            verify(*arguments)
    assert not Place("nowhere").sizes("")
