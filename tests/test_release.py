"""The release: one version, a workflow whose commands are there, and an image whose steps run."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from wheel_of_checkout import PACKAGES_OF_VENV, build_wheel, other_packages

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
CONTAINERFILE = ROOT / "Containerfile"
IN_THE_ROOT = re.compile(r"(?<![\w.*])/(opt|home|data)\b")


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def test_the_version_stands_in_one_place() -> None:
    """Fails where the changelog or the citation has another version, or a module states one."""
    [newest, *_] = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    [cited] = re.findall(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert (newest, cited) == (version(), version())
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["packages"]
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert len(files) > 300
    assert [path for path in files if re.search(r"^__version__ *=", path.read_text(encoding="utf-8"), re.M)] == []


def test_the_workflow_runs_what_is_there() -> None:
    """Fails where the workflow is no YAML, a job waits for none, or a module or a file that it names is gone."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    needed = [job["needs"] for job in jobs.values() if "needs" in job]
    assert {name for each in needed for name in ([each] if isinstance(each, str) else each)} <= {*jobs}
    commands = "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    assert {"build", "flows.command.machine.ship_kernels"} == set(re.findall(r"python -m ([\w.]+)", commands))
    assert (ROOT / "flows" / "command" / "machine" / "ship_kernels.py").is_file()
    assert "podman build" in commands and CONTAINERFILE.is_file()
    assert "constraints.txt" in commands


def instructions() -> list[tuple[str, str]]:
    """The instructions of the image's file, each with what follows it, continued lines joined."""
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", "")
    return [
        (line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line and not line.startswith("#")
    ]


def test_the_image_is_not_root_and_prepared() -> None:
    """Fails where the image's command runs as root, or the kernels are compiled for another user than its own."""
    names = [name for name, _ in instructions()]
    users = [rest for name, rest in instructions() if name == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert [rest for name, rest in instructions()[names.index("USER") :] if name == "RUN"] == ["cloze prepare"]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_the_steps_of_the_image_run_in_an_empty_root(tmp_path: Path) -> None:
    """Fails where a step of the image's file fails. The root is a folder; no user is made, and nothing is downloaded:
    what the wheel requires is that of this environment."""
    root, fake = tmp_path / "root", tmp_path / "bin"
    (root / "opt" / "wheels").mkdir(parents=True)
    fake.mkdir()
    shutil.copy(build_wheel(tmp_path), root / "opt" / "wheels")
    shutil.copy(ROOT / "constraints.txt", root / "opt" / "wheels")
    for name in ("useradd", "install"):
        (fake / name).write_text("#!/bin/sh\nexit 0\n")
        (fake / name).chmod(0o755)
    packages = other_packages(tmp_path / "packages")
    (fake / "python").write_text(
        f'#!/bin/sh\n{sys.executable} "$@" && echo {packages} > {root}/opt/cloze/{PACKAGES_OF_VENV}/packages.pth\n'
    )
    (fake / "python").chmod(0o755)
    variables = {"PATH": f"{root}/opt/cloze/bin:{fake}:{os.environ['PATH']}", "CLOZE_HOME": f"{root}/home/cloze/.cloze"}
    variables |= {"PIP_NO_INDEX": "1", "HOME": str(tmp_path)}
    steps = [IN_THE_ROOT.sub(rf"{root}/\1", rest) for name, rest in instructions() if name == "RUN"]
    assert len(steps) == 3
    for step in steps:
        done = subprocess.run(["sh", "-ec", step], env=variables, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{step}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    shown = subprocess.run(["cloze", "--version"], env=variables, cwd=root, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == version()
