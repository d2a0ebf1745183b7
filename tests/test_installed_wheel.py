"""An installed wheel, outside any checkout, does what a checkout does: doctor, a folder, a fine-tuning, the demo."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from test_release import version
from wheel_of_checkout import build_wheel, fresh_environment

from flows.run.addresses import find_artifacts

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.server]
FRIENDLY = "The keeper of the small harbour wrote that the winter tide had carried the boat away number {}. "


class Installed:
    """The commands of an environment, run in a folder that is no checkout."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self.folder = programs, folder
        dropped = ("PYTHONPATH", "CLOZE_HOME", "PREFECT_API_URL")
        self._variables = {name: value for name, value in os.environ.items() if name not in dropped}
        self._variables |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "caches")}

    def run(self, *command: str, code: int = 0) -> str:
        """Run a program; returns what it printed."""
        called = [str(self._programs / command[0]), *command[1:]]
        done = subprocess.run(called, cwd=self.folder, env=self._variables, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """A fresh environment with it, and a folder of texts."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "texts").mkdir()
    for number in range(20):
        (folder / "texts" / f"{number}.txt").write_text(FRIENDLY.format(number) * 12)
    return Installed(fresh_environment(folder / "venv", wheel), folder)


def test_the_wheel_holds_the_data_that_the_program_reads(wheel: Path) -> None:
    """Fails if a recipe, a template, a sample or a list of calls stays behind, or tests come along."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    for wanted in ("flows/recipes/shipped/demo.toml", "flows/command/kernel_calls.txt", "cloze/documents.py"):
        assert wanted in names
    assert sum(name.startswith("corpora/samples/") for name in names) > 100
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]


def test_doctor_and_version_without_a_checkout(installed: Installed) -> None:
    """Fails if `cloze doctor` ends in a trace, or caches go next to the installed packages."""
    assert installed.run("cloze", "--version").strip() == version()
    page = installed.run("cloze", "doctor")
    assert "nothing required is missing" in page
    assert str(installed.folder / "caches" / "cloze") in page
    where = installed.run("python", "-c", "import cloze, flows; print(flows.__file__)")
    assert where.startswith(str(installed.folder / "venv"))


def test_a_folder_and_a_fine_tuning(installed: Installed) -> None:
    """Fails if a folder's corpus, the Python API or a fine-tuning does not work from the wheel."""
    pytest.importorskip("torch")
    installed.run(
        "cloze", "run", "--source", "texts", "--set", "vocabulary.size=300", "--set", "duplicates.enabled=false"
    )
    assert find_artifacts(str(installed.folder / "store"), "shards")
    (installed.folder / "train.py").write_text(
        "import cloze\n"
        "shards = cloze.open_shards('store')\n"
        "model = {'size': 'tiny', 'layers': 1, 'hidden_size': 32, 'heads': 2, 'feed_forward_size': 64}\n"
        "print(cloze.train(shards, model, steps=2, batch=4).folder)\n"
    )
    model = installed.run("python", "train.py").splitlines()[-1]
    rows = [f'{{"text": "number {n} of these", "label": "{"odd" if n % 2 else "even"}"}}\n' for n in range(20)]
    (installed.folder / "rows.jsonl").write_text("".join(rows))
    files = ("--train", "rows.jsonl", "--evaluate", "rows.jsonl", "--output", "tuned", "--set", "epochs=1")
    installed.run("cloze", "finetune", "classes", model, *files)
    assert (installed.folder / "tuned" / "model.safetensors").is_file()


def test_the_demo(installed: Installed) -> None:
    """Fails if the demo does not run from the wheel."""
    pytest.importorskip("torch")
    assert "nothing is unaccounted for" in installed.run("cloze", "demo")
