"""The tests pass in a checkout and a home that were used: whatever runs, sites and people have left in them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import PACKAGES, ROOT, checkout_files, git, tracked_files, unignored_files
from tiers import LONG

from corpora.kernels.compiling import make_kernel_folder

# Those that look at the whole checkout, at the working folder, or at the home; the dear ones of them in the long tier.
SAMPLE = (
    *("tests/test_house.py", "tests/test_release.py", "tests/flows/command/test_doctor.py"),
    *("tests/flows/command/test_help.py", "tests/flows/command/test_differing.py"),
)
DEAR = ("tests/test_docs.py", "tests/test_doc_blocks.py", "tests/test_runbook.py", "tests/test_licences.py")
NOBODY = "http://127.0.0.1:9/api"  # where no server answers
UNSAID = "It is to be done: TO" + "DO. [A page](nowhere.md)"
QUICK = "not slow and not server and not long"
SOURCE = ["import os, sys\n", "x = ( 1 )"]
CELL = {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": SOURCE}
NOTEBOOK = {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
LEFT_IN_CHECKOUT = {
    "store/runs/20260101T000000000000-demo/run.json": "{",
    "store/documents/pages/0/manifest.json": "{",
    "models/birds/config.json": "{}",
    "models/train.py": f"import  nothing\n# {UNSAID}\n",
    "data/test_data.py": f"def test_data():\n    assert False, '{UNSAID}'\n",
    "data/notes.md": UNSAID,
    "demo.toml": 'name = "demo"\n',
    "demo.lock": "{",
    "other.toml": "name = ",
    "test.toml": 'name = "test"\n',
    "notes.ipynb": json.dumps(NOTEBOOK),
    "notes.md": UNSAID,
    "scratch.py": f"import  nothing, os\n# {UNSAID}\n",
    "test_scratch.py": "def test_scratch():\n    assert False\n",
    "build/site/index.html": UNSAID,
    ".cloze/prefect/prefect.db": "no database",
}
LEFT_IN_HOME = {
    "cloze/prefect/prefect.db": "no database",
    "cloze/prefect/own-server.port": "9",
    "cloze/raw-files.json": "{",
    ".cache/cloze/models/demo/0/work/job.json": "{",
    ".prefect/profiles.toml": f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{NOBODY}"\n',
    ".aws/config": "[default]\nendpoint_url = http://127.0.0.1:9\n",
}


def write_all(folder: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the files as they are here, in which more lies."""
    if not shutil.which("git"):
        pytest.skip("git is not installed: it says which files belong to the checkout")
    folder = tmp_path_factory.mktemp("used") / "checkout"
    for path in checkout_files():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    write_all(folder, LEFT_IN_CHECKOUT)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user with older runs in the home, and with settings of their own."""
    home = tmp_path_factory.mktemp("older")
    write_all(home, LEFT_IN_HOME)
    (home / "cloze" / "kernels").symlink_to(make_kernel_folder().parent)
    users = {"HOME": str(home), "CLOZE_HOME": str(home / "cloze"), "PREFECT_API_URL": NOBODY, "PYTHONPATH": ""}
    return {**os.environ, **users}


def test_a_sample_of_the_tests_passes_in_a_used_checkout(used: Path, environment: dict[str, str]) -> None:
    """Fails if a test depends on what lies in the checkout or in the home."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", QUICK]
    command += [*SAMPLE, *(DEAR if LONG else ())]
    done = subprocess.run(command, cwd=used, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 50


def test_layout_and_rules_are_asked_of_the_project_only(used: Path) -> None:
    """Fails if ruff looks at a notebook or a script of a user."""
    for words in (["check", "-q"], ["format", "--check", "-q"]):
        ruff = [Path(sys.executable).with_name("ruff"), *words, "."]
        done = subprocess.run(ruff, cwd=used, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (used / "tests" / "tiers.py").write_text("import  os\n")  # as for any file of the project, this is noticed
    assert subprocess.run(ruff, cwd=used, capture_output=True, check=False).returncode == 1


def test_the_files_of_a_checkout_are_known_with_git_and_without(used: Path, tmp_path: Path) -> None:
    """Fails if a file of a user is taken for one of the project, or one of the project is passed over."""
    ours = {path.relative_to(ROOT).as_posix() for path in checkout_files()}
    assert {"README.md", ".gitignore", *(f"{package}/__init__.py" for package in PACKAGES)} <= ours
    assert {path.relative_to(used).as_posix() for path in tracked_files(used)} == ours
    exported = tmp_path / "exported"
    shutil.copytree(used, exported, ignore=shutil.ignore_patterns(".git"))
    assert tracked_files(exported) == []
    found = {path.relative_to(exported).as_posix() for path in unignored_files(exported)}
    assert ours <= found and not found & {"demo.toml", "build/site/index.html", ".cloze/prefect/prefect.db"}
