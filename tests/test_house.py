"""The rules of the house: who imports whom, what no file says, and that the README speaks of this program."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from checkout import PACKAGES, ROOT, checkout_files, files_below
from parsed_sources import nodes_of, sources, tree_of

from flows.command.cli import app
from flows.command.help import list_command_names
from flows.command.reference import render_commands_table
from flows.run.stage_kinds import STAGES

OWNERS = {
    **{"prefect": "flows/orchestration", "torch": "trainer"},
    **{"dask": "flows/engines", "distributed": "flows/engines"},
}
INSTALLED_AS = {
    "sentence_transformers": "sentence-transformers",
    "yaml": "pyyaml",
    "_pytest": "pytest",
    "markdown_it": "markdown-it-py",
}
USED_BY_TORCH = {"onnx", "onnxscript", "tensorboard"}  # torch.onnx and torch.utils.tensorboard import them
GIVEN = {"datasets", "transformers"}  # whose objects the functions of `cloze` return
HELD_FOR_PREFECT = {"fastapi", "sqlalchemy"}  # not imported: versions of what it uses that work with it
NAMES_TO_BE_FOUND = {"utils", "helpers", "common", "manager", "base"}
UNSAID = {
    "a promise instead of a deed": r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
    "where packages come from": r"pypi\." + r"org|files\.python" + r"hosted",
    "a folder of the machine it was written on": r"(?<![\w/.])/(work|root|home/\w+)/\w",
}
READ = {".py", ".md", ".toml", ".txt", ".html", ".json", ".wiki", ""}


@cache
def text_of(path: Path) -> str:
    """A file of the checkout."""
    return path.read_text(encoding="utf-8", errors="replace")


def imported(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a file imports, anywhere in it: module, and the names taken from it."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names)


def others_imported(path: Path) -> set[str]:
    """Return what a file imports of others, by the names they install under: not Python's modules, not ours."""
    known = {*sys.stdlib_module_names, *PACKAGES, "_typeshed"}
    found = {module.split(".")[0] for module, _ in imported(path)} - known
    return {INSTALLED_AS.get(module, module).lower() for module in found}


def declared(*extras: str) -> set[str]:
    """The names of what pyproject.toml asks for: what a run needs, and what the extras add."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return {re.split(r"[^\w-]", line, maxsplit=1)[0].lower() for line in asked}


@cache
def project_files() -> list[Path]:
    """The files of the checkout that people read."""
    return [path for path in checkout_files() if path.suffix in READ]


def test_no_package_imports_a_higher_one() -> None:
    """Fails if a contract of pyproject.toml is broken, or none is checked."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: (?:[4-9]|[1-9]\d) kept, 0 broken", done.stdout)


def test_packages_tell_their_story_and_import_nothing() -> None:
    """Fails if an `__init__.py` holds anything but its docstring, or has none.

    That of `cloze`, the stable face, alone gives names; `tests/cloze/test_stability.py` says that it imports none.
    """
    files = [path for path in sources() if path.name == "__init__.py" and path.parent != ROOT / "cloze"]
    assert len(files) > len(PACKAGES)
    for path in files:
        body = tree_of(path).body
        assert [type(node) for node in body] == [ast.Expr], f"{path} holds more than prose"
        assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant), path


def test_heavy_libraries_are_known_in_one_place_alone() -> None:
    """Fails if a package or a room knows Prefect or torch that should not."""
    seen = {(module.split(".")[0], path) for path in sources() for module, _ in imported(path)}
    strays = [
        f"{path.relative_to(ROOT)} imports {module}"
        for module, path in seen
        if module in OWNERS and not path.is_relative_to(ROOT / OWNERS[module])
    ]
    assert strays == []
    assert "prefect" in {module for module, _ in seen}  # else nothing was looked at


def test_what_is_imported_is_declared() -> None:
    """Fails if a package imports what its installation does not bring, or a dependency is not used by any.

    What only tests and benchmarks compare with (mwparserfromhell, hypothesis, transformers) is in no package.
    """
    used = {package: set[str]() for package in PACKAGES}
    for path in sources():
        used[path.relative_to(ROOT).parts[0]] |= others_imported(path)
    core = declared()
    owners = {"corpora": ["documents"], "trainer": ["trainer", "tensorboard", "onnx"], "flows": ["dask"]}
    owners["cloze"] = ["reference", "dev"]  # whose own objects it gives where they are installed
    extras = {package: declared(*names) - core for package, names in owners.items()}
    undeclared = {package: names - core - extras.get(package, set()) for package, names in used.items()}
    assert [package for package, names in undeclared.items() if names] == [], undeclared
    of_packages = [extras[package] for package in ("corpora", "trainer", "flows")]
    assert core.union(*of_packages) == set.union(*used.values()) - GIVEN | HELD_FOR_PREFECT | USED_BY_TORCH


def test_what_tests_and_benchmarks_import_is_declared() -> None:
    """Fails if they import what the development environment has by chance."""
    everything = declared(
        *("trainer", "tensorboard", "onnx", "documents", "reference", "sentences", "dask", "docs", "dev")
    )
    files = files_below("tests", "benchmarks", "docs", suffix=".py")
    ours = {path.stem for path in files} | {"benchmarks", "bootstrap", "docs"}
    found = set().union(*map(others_imported, files)) - ours
    assert found - everything == set()
    assert {"mwparserfromhell", "hypothesis"} <= found - declared("trainer")


WITHOUT_TORCH = """
import sys
import pytest
sys.modules["torch"] = None
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
@pytest.mark.long
def test_where_torch_is_not_installed_nothing_that_wants_it_is_collected() -> None:
    """Fails if plain `pytest` ends in import errors there. (The folders that are left out do not know torch.)"""
    others = [f"--ignore=tests/{name}" for name in ("corpora", "tokenizers_train", "shards", "flows")]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "trainer", "tests", *others],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert "tests/test_house.py" in files
    assert not {file for file in files if "trainer" in file}


def test_kernels_are_compiled_through_one_decorator() -> None:
    """Fails if numba is imported outside of three files that decide how kernels are compiled and kept, and of
    `instructions`, which Python has no word for."""
    users = {
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for module, _ in imported(path)
        if module.split(".")[0] == "numba"
    }
    assert users == {f"corpora/kernels/{name}.py" for name in ("calls", "compiling", "dispatching", "instructions")}
    decorated = [path for path in sources() if ("corpora.kernels.compiling", ("kernel",)) in imported(path)]
    assert len(decorated) > 5


COLUMNS_AT = {"read_part_table": 4, "read_table": 3}  # which argument says the columns to read


def test_who_reads_a_table_names_its_columns() -> None:
    """Fails if all columns are decompressed though few are used: the packages never read whole rows unseen."""
    calls = [
        (path.relative_to(ROOT).as_posix(), node)
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COLUMNS_AT
    ]
    unnamed = [
        f"{path}:{node.lineno}"
        for path, node in calls
        if len(node.args) <= COLUMNS_AT[getattr(node.func, "id", "")] and all(k.arg != "columns" for k in node.keywords)
    ]
    assert len(calls) > 20 and unnamed == []


def classes() -> dict[tuple[str, str], list[str]]:
    """The files that define each class, by its package and its name; private ones and protocols too."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for path in sources():
        file = path.relative_to(ROOT)
        for name in {node.name for node in nodes_of(path) if isinstance(node, ast.ClassDef)}:
            found[file.parts[0], name].append(file.as_posix())
    return found


def test_a_class_name_has_one_meaning_in_a_package() -> None:
    """Fails if two files of a package define a class of the same name."""
    found = classes()
    assert found["tokenizers_train", "Vocabulary"] == ["tokenizers_train/vocabularies/vocabulary.py"]
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_no_name_is_imported_under_itself() -> None:
    """Fails if a file hands on what it imported (`import x as x`): a name is imported from where it is defined."""
    handed_on = [
        f"{path.relative_to(ROOT)}: {alias.name}"
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    ]
    assert handed_on == []


def test_files_are_named_after_what_they_hold() -> None:
    """Fails if a module has a name that says nothing."""
    assert [path for path in sources() if path.stem in NAMES_TO_BE_FOUND] == []


def test_names_of_test_files_are_unique() -> None:
    """Fails if two test files have one name: pytest then imports one of them alone, and ends."""
    names = Counter(
        path.name
        for path in project_files()
        if path.suffix == ".py" and "tests" in path.parts and path.name != "conftest.py"
    )
    assert [name for name, number in names.items() if number > 1] == []


def architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def drawn_rooms(page: str) -> list[str]:
    """The folders that the architecture page draws, one a line, each below the last that is indented less."""
    drawing = page.partition("## Rooms\n")[2].partition("\n## ")[0]
    rooms, above = [], dict[int, str]()
    for indent, name in re.findall(r"^    ( *)([a-z_]+)/ {2,}\S", drawing, re.MULTILINE):
        above[len(indent)] = f"{above[len(indent) - 2]}/{name}" if indent else name
        rooms.append(above[len(indent)])
    return rooms


def test_the_architecture_page_draws_every_room() -> None:
    """Fails if a folder of a package is missing in the drawing, is drawn twice, or is not there any more."""
    folders = [path.parent.relative_to(ROOT).as_posix() for path in sources() if path.name == "__init__.py"]
    rooms = [folder for folder in folders if not folder.startswith("corpora/samples/")]  # those hold data alone
    assert sorted(drawn_rooms(architecture())) == sorted(rooms)
    assert len(rooms) > 30


def test_the_architecture_page_says_where_each_stage_is_built() -> None:
    """Fails if a stage is missing in the table, or its module is not there."""
    rows = re.findall(r"^\| (\w+) \|.*\| ([\w/]+\.py) \|$", architecture(), re.MULTILINE)
    assert tuple(stage for stage, _ in rows) == (*STAGES,)
    assert [module for _, module in rows if not (ROOT / module).is_file()] == []


def test_stories_name_files_that_are_there() -> None:
    """Fails if the story of a room names a file that is neither in it nor in a room below."""
    named = [
        (path.parent, name)
        for path in sources()
        if path.name == "__init__.py"
        for name in re.findall(r"(?<![\w/])(?:[\w/]+/)?(\w+\.py)\b", path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 100
    assert [(room, name) for room, name in named if not any(room.rglob(name))] == []


def test_samples_are_data() -> None:
    """Fails if a script goes out with the samples: what makes them belongs to the tests."""
    samples = ROOT / "corpora" / "samples"
    assert len([path for path in samples.rglob("*") if path.is_file()]) > 100
    assert {path.name for path in samples.rglob("*.py")} == {"__init__.py"}


@pytest.mark.parametrize("what", UNSAID)
def test_no_file_says(what: str) -> None:
    """Fails if a file of the checkout says what it should not."""
    files = project_files()
    assert {ROOT / "README.md", ROOT / "Makefile", ROOT / "flows" / "main.py"} <= {*files}
    pattern = re.compile(UNSAID[what])
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}" for path in files for match in [pattern.search(text_of(path))] if match
    ]
    assert found == []


@pytest.mark.parametrize("said", ["# TO" + "DO: mend", "pip from pypi" + ".org", 'open("/ro' + 'ot/x/data")'])
def test_what_is_not_to_be_said_would_be_found(said: str) -> None:
    """Fails if the patterns above match nothing."""
    assert any(re.search(pattern, said) for pattern in UNSAID.values())


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_ten_of_the_programs_commands() -> None:
    """Fails if a command to know first is renamed or described otherwise; the reference has all of them."""
    rows = re.findall(r"^\| `cloze .+$", readme(), re.MULTILINE)
    assert rows == render_commands_table().splitlines()[2:12]
    assert len(list_command_names(app)) > 10


@pytest.mark.parametrize(
    ("page", "least"),
    [("README.md", {"demo", "site", "check"}), ("CONTRIBUTING.md", {"test-all", "test-quick", "check"})],
)
def test_targets_named_on_a_page_are_in_the_makefile(page: str, least: set[str]) -> None:
    """Fails if a page names a target that make does not have."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert least <= named
    assert named <= targets


def test_files_named_for_contributors_exist() -> None:
    """Fails if CONTRIBUTING.md names a file or folder that is not there."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?|\w+\.(?:md|toml|txt))`", page))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_tests_named_with_the_promises_exist() -> None:
    """Fails if a promise points to a test file that is not there."""
    named = set(re.findall(r"tests/[\w/]+\.py", (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []
