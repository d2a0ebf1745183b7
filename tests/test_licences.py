"""The project's own licence, said alike everywhere, and the list of its parts' licences, in step with what is there."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import third_party_licences as licences

ROOT = Path(__file__).resolve().parents[1]
PAGE = licences.PAGE.read_text(encoding="utf-8")


def test_the_licence_is_said_alike() -> None:
    """Fails if a file names another licence or version than pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    words = " ".join((ROOT / "LICENSE").read_text(encoding="utf-8").split())
    assert words.startswith("Apache License Version 2.0, January 2004") and len(words) > 9_000
    cited = dict(re.findall(r"^(\w+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert (cited["license"], cited["version"]) == (project["license"], project["version"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| numpy | ", "| numpie | "),
        ("| pyarrow | 26", "| pyarrow | 25"),
        ("| BSD-3-Clause AND 0BSD", "| 0BSD"),
    ],
)
def test_a_list_that_lags_is_written_again(old: str, new: str, tmp_path: Path) -> None:
    """Fails if the page lags, or one from which a row is gone or which says something else passes or stays."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(old, new), encoding="utf-8")
    assert old in PAGE and licences.main(["--check"], page) == 1
    assert licences.main([], page) == licences.main(["--check"], page) == 0
    assert page.read_text(encoding="utf-8") == PAGE
    assert licences.main(["--chekc"], page) == 2


def test_a_package_without_a_row_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(licences, "installed_rows", list)
    page = tmp_path / "page.md"
    page.write_text(re.sub(r"\| numpy \| \d.*\n", "", PAGE), encoding="utf-8")
    assert licences.main([], page) == licences.main(["--check"], page) == 1
    assert "| numpy | " in capsys.readouterr().err and "| numpy | " not in page.read_text(encoding="utf-8")


def test_no_package_asks_for_more_than_the_licence_gives() -> None:
    """Fails if a package has the GPL or its like, and the page does not say why that is no obstacle."""
    head, _, table = PAGE.partition(licences.HEAD)
    rows = re.findall(r"^\| (\S+) \| \S+ \| (.*) \|$", table, re.MULTILINE)
    assert {name for name, text in rows if re.search(r"GPL|GNU|General Public", text)} == {"text-unidecode", "docutils"}
    assert all(name in head for name in ("text-unidecode", "docutils"))
    libraries = re.compile(r"(libgfortran|libgomp|libquadmath)\b")
    held = {
        (licences.canonical(each.name), match[1])
        for each in distributions()
        for path in each.files or ()
        if (match := libraries.match(path.name)) and f"| {licences.canonical(each.name)} | " in table
    }
    assert [pair for pair in held if not re.search(rf"{pair[1]} \([^)]*\b{pair[0]}\b", " ".join(head.split()))] == []
    assert ("numpy", "libquadmath") in held
