"""The release: one version, a workflow whose commands are there, and an image whose steps run."""

import re
import shutil
import tomllib
from pathlib import Path

import join_changes
import pytest
import yaml
from checkout import ROOT, files_below
from empty_root import EmptyRoot, is_permitted
from wheel_of_checkout import build_wheel

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
CONTAINERFILE = ROOT / "Containerfile"


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def test_the_version_stands_in_one_place() -> None:
    """Fails if the changelog or the citation has another version, or a module states one."""
    [newest, *_] = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    [cited] = re.findall(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert (newest, cited) == (version(), version())
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["packages"]
    files = files_below(*packages, suffix=".py")
    assert len(files) > 300
    assert [path for path in files if re.search(r"^__version__ *=", path.read_text(encoding="utf-8"), re.M)] == []


def test_changes_are_joined_at_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a change is lost, stays behind, or is not missed before a release."""
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    for name in ("CHANGELOG.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "changes" / "b.md").write_text("A second change,\nin two lines.\n")
    (tmp_path / "changes" / "a.md").write_text("A first change.\n")
    before = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    assert join_changes.main(["--check"], tmp_path) == 1 and "b.md is not in CHANGELOG.md" in capsys.readouterr().err
    assert join_changes.main([], tmp_path) == join_changes.main(["--check"], tmp_path) == 0
    after = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, sections = after.partition("\n## ")[2].split("\n## ", 1)[0], after.count("\n## ")
    assert newest.startswith(version()) and newest.index("\n- A first change.\n") < newest.index(
        "\n- A second change,\n"
    )
    assert "\n  in two lines.\n" in newest and sections == before.count("\n## ")
    assert {*before.splitlines()} <= {*after.splitlines()}
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]
    assert join_changes.main([], tmp_path) == 0 and (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8") == after
    assert join_changes.main(["--chekc"], tmp_path) == 2


@pytest.mark.parametrize(
    "heading", ["## Unreleased", "## [Unreleased]", "## 2.0", "## 2.0 (not released)", "## 1.9", ""]
)
@pytest.mark.parametrize("body", ["\nProse about it.\n", "\n- A point.\n", ""])
def test_points_come_into_the_newest_section(heading: str, body: str) -> None:
    """Fails if points are put into an older section, or a text around them is changed."""
    older = "## 1.8\n\n- An old point.\n"
    changelog = f"# Changelog\n\n{heading}\n{body}\n{older}" if heading else f"# Changelog\n\n{older}"
    joined = join_changes.join_points(changelog, ["- One.", "- Two."], "2.0")
    assert joined.endswith(
        f"- One.\n- Two.\n\n{changelog[changelog.index('## 1.9' if '1.9' in heading else '## 1.8') :]}"
    )
    assert ("## 2.0\n\n- One." in joined) == (heading in ("## 1.9", "") or (heading == "## 2.0" and not body))
    assert (
        re.sub(r"(## 2.0\s+)?- One.\n- Two.\n\n?", "", joined).split()
        == (changelog.replace("## 2.0\n\n##", "##") if heading == "## 2.0" else changelog).split()
    )


@pytest.mark.parametrize("text", ["", "# A heading\n\nText.\n", "- A bullet.\n"])
def test_a_change_that_says_nothing_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(text)
    with pytest.raises(ValueError, match="write what is different for users"):
        join_changes.format_point(tmp_path / "a.md")


def test_the_workflow_runs_what_is_there() -> None:
    """Fails if the workflow is no YAML, a job waits for none, or a module or a file that it names is gone."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    needed = [job["needs"] for job in jobs.values() if "needs" in job]
    assert {name for each in needed for name in ([each] if isinstance(each, str) else each)} <= {*jobs}
    commands = "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    assert {"build", "flows.command.compile_kernels"} == set(re.findall(r"python -m ([\w.]+)", commands))
    assert (ROOT / "flows" / "command" / "compile_kernels.py").is_file()
    assert commands.index("docs/join_changes.py --check") < commands.index("python -m build")
    assert "podman build" in commands and CONTAINERFILE.is_file()
    assert "constraints.txt" in commands


def instructions() -> list[tuple[str, str]]:
    """The instructions of the image's file, each with what follows it, continued lines joined."""
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", "")
    return [
        (line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line and not line.startswith("#")
    ]


def test_the_image_is_not_root_and_prepared() -> None:
    """Fails if the image's command runs as root, or the kernels are compiled for another user than its own."""
    names = [name for name, _ in instructions()]
    users = [rest for name, rest in instructions() if name == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert [rest for name, rest in instructions()[names.index("USER") :] if name == "RUN"] == ["cloze prepare"]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_the_steps_of_the_image_run_in_an_empty_root(tmp_path: Path) -> None:
    """Fails if a step of the image's file fails, or what its user then runs does, is another user's, or compiles."""
    if not is_permitted():
        pytest.skip("an empty root needs root, and unshare, chroot, ip and useradd")
    context, image = tmp_path / "context", EmptyRoot(tmp_path / "root")
    (context / "dist").mkdir(parents=True)
    shutil.copy(build_wheel(tmp_path), context / "dist")
    shutil.copy(ROOT / "constraints.txt", context)
    try:
        for name, rest in instructions():
            image.perform(name, rest, context)
        kernels = image.files("home/cloze/.cloze/kernels")
        assert any(name.endswith(".kernel") for name in kernels)
        (image.root / "data" / "texts").mkdir()
        for number in range(20):
            (image.root / "data" / "texts" / f"{number}.txt").write_text(f"The winter tide took boat {number}. " * 12)
        (image.root / "data").chmod(0o777)
        assert image.run([*image.entry_point, "--version"]).strip() == version()
        assert "nothing required is missing" in image.run([*image.entry_point, "doctor"])
        assert image.run(["id", "-u"]).strip() == "1000"
        options = ("--set", "vocabulary.size=300", "--set", "duplicates.enabled=false")
        shown = image.run([*image.entry_point, "run", "--source", "texts", *options])
        assert "nothing is unaccounted for" in shown and "not compiled" not in shown
        assert image.files("home/cloze/.cloze/kernels") == kernels
        assert {path.stat().st_uid for path in (image.root / "data" / "store").rglob("*")} == {1000}
    finally:
        shutil.rmtree(image.root)  # of some gigabytes
