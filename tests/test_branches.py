"""Gates stop nobody who adds good lines: two branches are mended by `make fix`, pass the checks and merge.

Each works in a clone of this checkout, as it is now, with the tools of this environment.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from branches import COMPARISON, FAILURES, RULES, Branch

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CODE = ("cloze", "flows", "trainer", "shards", "tokenizers_train", "corpora", "tests", "docs", "benchmarks", "changes")
LEAST_LINES = 40
REFERENCE = "docs/reference.md"
# A part of each generated page, and what it is damaged to; of the Python API a line, which `make fix` may only add.
DAMAGES: Mapping[str, tuple[str, str]] = {
    REFERENCE: (r"^\| `min_words` .*\n", ""),
    "README.md": (r"^(\| `cloze run` \|).*", r"\1 Builds things. |"),
    "docs/llms.txt": (r"^- .*\n", ""),
    "docs/performance.md": (r"^<!-- tables of .*\n", r"\g<0>\n| a | table |\n"),
    "docs/images/beside.svg": (r"Cloze", "Close"),
    "tests/cloze/surface.txt": (r"^    __len__.*\n", ""),
}
OUTPUTS: Mapping[str, tuple[str, str]] = {
    "docs/one-document.md": (r"```text\n", "```text\nnothing\n"),
    "flows/command/kernel_calls.txt": (r"\A.*\n", ""),
}


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command in a checkout whose own packages it imports, and return what it prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "MAKE", "MFLAGS"))}
    environment = {**inherited, "PYTHONPATH": str(cwd), "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command} in {cwd}:\n{done.stdout}"
    return done.stdout


def git(checkout: Path, *arguments: str) -> str:
    """Run git as a developer of its own."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    return run("git", *identity, *arguments, cwd=checkout)


def make(checkout: Path, *targets: str) -> None:
    """Run targets of the Makefile with the tools of this environment; what they print is shown with `pytest -s`."""
    print(run("make", *targets, f"BIN={BIN}", cwd=checkout))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this checkout, with what is changed here and not committed yet."""
    absent = [name for name in ("git", "make") if shutil.which(name) is None]
    if absent or not (ROOT / ".git").exists() or not (BIN / "ruff").exists():
        pytest.skip("it takes a git checkout, make and ruff")
    folder = tmp_path / "clone"
    git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(folder))
    changed = git(ROOT, "diff", "--name-only", "-z", "HEAD").split("\0")
    new = git(ROOT, "ls-files", "--others", "--exclude-standard", "-z", "--", *CODE).split("\0")
    for name in filter(None, [*changed, *new]):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        else:
            (folder / name).unlink()
    git(folder, "checkout", "--quiet", "-b", "work")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "As it is here")
    return folder


def damage(checkout: Path, damages: Mapping[str, tuple[str, str]]) -> None:
    """Change a part of each file."""
    for name, (pattern, replacement) in damages.items():
        text = (checkout / name).read_text(encoding="utf-8")
        damaged = re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE)
        assert damaged != text, name
        (checkout / name).write_text(damaged, encoding="utf-8")


def touched(checkout: Path) -> set[str]:
    """Return the files that differ from the last commit, new ones too."""
    git(checkout, "add", "--all")
    return {*git(checkout, "diff", "--cached", "--name-only", "HEAD").split()}


def commit(checkout: Path, branch: Branch) -> None:
    """Commit a branch that `make fix` mended. Fails if it touched more than the branch's files and the reference."""
    assert touched(checkout) == {RULES, REFERENCE, *branch.files}
    added = git(checkout, "diff", "--cached", "--numstat", "HEAD", "--", RULES).split()[0]
    assert int(added) >= LEAST_LINES
    git(checkout, "commit", "--quiet", "--message", "More about rules")


@pytest.mark.slow
def test_two_branches_are_fixed_and_merge(clone: Path) -> None:
    """Fails if `make fix` leaves a page as it was or touches another file, or if two branches conflict."""
    for name, branch in (("failures", FAILURES), ("comparison", COMPARISON)):
        git(clone, "checkout", "--quiet", "-b", name, "work")
        branch.apply(clone)
        if branch is FAILURES:
            damage(clone, DAMAGES)
        make(clone, "fix-layout", "fix-pages")
        commit(clone, branch)
    git(clone, "merge", "--quiet", "--no-edit", "failures")
    make(clone, "format", "lint", "docs")
    tests = [name for branch in (FAILURES, COMPARISON) for name in branch.files if name.endswith(".py")]
    run(BIN / "python", "-m", "pytest", "-q", *tests, RULES, cwd=clone)
    assert touched(clone) == set()


@pytest.mark.slow
@pytest.mark.long
def test_the_whole_check_of_a_branch_passes(clone: Path) -> None:
    """Fails if a branch needs more than `make fix` for the rules of the house and all that `make check` does first."""
    pytest.importorskip("torch")
    FAILURES.apply(clone)
    damage(clone, {**DAMAGES, **OUTPUTS, "docs/third-party-licences.md": (r"^\| numpy .*\n", "")})
    make(clone, "fix")
    commit(clone, FAILURES)
    make(clone, "format", "lint", "types", "contracts", "docs", "site")
    run(BIN / "python", "-m", "pytest", "-q", "-m", "not long", "tests/test_house.py", cwd=clone)
    assert touched(clone) == set()
