"""The rules of the house: who imports whom, what no file says, and that the README speaks of this program."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from flows.cli import app
from flows.reference import command_names, commands_table

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows")
OWNERS = {"prefect": "flows", "pydantic": "flows", "torch": "trainer"}
NAMES_TO_BE_FOUND = {"utils", "helpers", "common", "manager", "base"}
UNSAID = {
    "a promise instead of a deed": r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
    "where packages come from": r"pypi\." + r"org|files\.python" + r"hosted",
    "a folder of the machine it was written on": r"(?<![\w/.])/(work|root|home/\w+)/\w",
}
READ = {".py", ".md", ".toml", ".txt", ".html", ".json", ".wiki", ""}
AMBIENT = {"store", "__pycache__", "build"}


def sources() -> list[Path]:
    """Every Python file of the packages."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imported(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a file imports, anywhere in it: module, and the names taken from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names)


def project_files() -> list[Path]:
    """The files of the checkout that people read: not what tools, runs and the environment leave there."""
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = parts[0].startswith(".") and parts[0] != ".ci"
        ours = not hidden and not any(part in AMBIENT or part.endswith(".egg-info") for part in parts)
        if ours and path.suffix in READ and path.is_file():
            found.append(path)
    return found


def test_no_package_imports_a_higher_one() -> None:
    """Fails where a contract of pyproject.toml is broken, or none is checked."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: [4-9] kept, 0 broken", done.stdout)


def test_packages_tell_their_story_and_import_nothing() -> None:
    """Fails where an `__init__.py` holds anything but its docstring, or has none."""
    files = [path for path in sources() if path.name == "__init__.py"]
    assert len(files) > len(PACKAGES)
    for path in files:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assert [type(node) for node in body] == [ast.Expr], f"{path} holds more than prose"
        assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant), path


def test_heavy_libraries_are_known_to_one_package_alone() -> None:
    """Fails where a package knows Prefect, pydantic or torch that should not."""
    seen = {(module.split(".")[0], path) for path in sources() for module, _ in imported(path)}
    strays = [
        f"{path.relative_to(ROOT)} imports {module}"
        for module, path in seen
        if module in OWNERS and path.relative_to(ROOT).parts[0] != OWNERS[module]
    ]
    assert strays == []
    assert "prefect" in {module for module, _ in seen}  # else nothing was looked at


def test_kernels_are_compiled_through_one_decorator() -> None:
    """Fails where numba is imported beside `corpora.kernels`, which decides how kernels are cached, and `packed`,
    which names machine instructions that Python has no word for."""
    users = {
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for module, _ in imported(path)
        if module.split(".")[0] == "numba"
    }
    assert users == {"corpora/kernels.py", "corpora/text/packed.py"}
    decorated = [path for path in sources() if ("corpora.kernels", ("kernel",)) in imported(path)]
    assert len(decorated) > 5


def test_files_are_named_after_what_they_hold() -> None:
    """Fails where a module has a name that says nothing."""
    assert [path for path in sources() if path.stem in NAMES_TO_BE_FOUND] == []


@pytest.mark.parametrize("what", UNSAID)
def test_no_file_says(what: str) -> None:
    """Fails where a file of the checkout says what it should not."""
    files = project_files()
    assert {ROOT / "README.md", ROOT / "Makefile", ROOT / "flows" / "cli.py"} <= {*files}
    pattern = re.compile(UNSAID[what])
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        for match in [pattern.search(path.read_text(encoding="utf-8", errors="replace"))]
        if match
    ]
    assert found == []


@pytest.mark.parametrize("said", ["# TO" + "DO: mend", "pip from pypi" + ".org", 'open("/ro' + 'ot/x/data")'])
def test_what_is_not_to_be_said_would_be_found(said: str) -> None:
    """Fails where the patterns above match nothing."""
    assert any(re.search(pattern, said) for pattern in UNSAID.values())


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_the_programs_commands() -> None:
    """Fails where a command is added, renamed or described otherwise."""
    assert commands_table() in readme()
    assert len(command_names(app)) > 5


def test_targets_named_in_the_readme_are_in_the_makefile() -> None:
    """Fails where the README names a target that make does not have."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)", readme(), re.MULTILINE))
    assert {"demo", "test", "test-quick", "check"} <= named
    assert named <= targets


def shown_commands() -> list[tuple[str, str]]:
    """Every line of the guides that shows a `cloze` command, with the page it stands on."""
    found = []
    guides = ("guide-your-own-text.md", "guide-vocabularies.md")
    for page in (ROOT / "README.md", *(ROOT / "docs" / name for name in guides)):
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"(?:    (?:\.venv/bin/))?cloze ([a-z]+.*?)(?:   .*)?$", line):
                found.append((page.name, match[1]))
    return found


def test_a_command_that_is_not_there_is_noticed() -> None:
    """Fails where the check below takes anything."""
    for command in ("runn my.toml", "trace store 0 --spilt held-out"):
        with pytest.raises(CycloptsError):
            app.parse_args(command, exit_on_error=False, print_error=False)


def test_commands_shown_in_the_guides_are_understood() -> None:
    """Fails where a guide shows a command or an option that the program does not take."""
    commands = shown_commands()
    assert len(commands) > 12
    for page, command in commands:
        try:
            app.parse_args(command, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            pytest.fail(f"{page} shows `cloze {command}`: {error}")


def test_tests_named_in_the_readme_exist() -> None:
    """Fails where a promise points to a test file that is not there."""
    named = set(re.findall(r"tests/[\w/]+\.py", readme()))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []
