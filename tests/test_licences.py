"""The project's own licence, said alike everywhere, and the list of its parts' licences, in step with what is there."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from docs import third_party_licences as licences

ROOT = Path(__file__).resolve().parents[1]
PAGE = licences.PAGE.read_text(encoding="utf-8")


def test_the_licence_is_said_alike() -> None:
    """Fails where a file names another licence or version than pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    words = " ".join((ROOT / "LICENSE").read_text(encoding="utf-8").split())
    assert words.startswith("Apache License Version 2.0, January 2004") and len(words) > 9_000
    cited = dict(re.findall(r"^(\w+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert (cited["license"], cited["version"]) == (project["license"], project["version"])


def test_the_list_of_licences_is_in_step() -> None:
    """Fails where a package that is needed is not on the page, or the page says another licence than the package."""
    assert [*licences.differences(PAGE)] == []
    kept = f"LATER_PYTHONS := {'|'.join(licences.LATER_PYTHONS)}\n"  # whose pins `make pins` leaves as they are
    assert kept in (ROOT / "Makefile").read_text(encoding="utf-8")
    named = [name for name in licences.pins() if licences.version_here(name) == licences.pins()[name]]
    assert len(named) > 100  # so something was compared


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("| numpy | ", "| numpie | ", "numpy .* is in constraints.txt or on the page"),
        ("| pyarrow | 26", "| pyarrow | 25", "pyarrow 26"),
        ("| BSD-3-Clause AND 0BSD", "| 0BSD", r"lacks `\| numpy"),
        ("| numpy | libquadmath |", "| numpy | libm |", r"lacks `\| numpy \| libquadmath"),
    ],
)
def test_a_list_that_lags_is_noticed(old: str, new: str, complaint: str) -> None:
    """Fails where the comparison passes a page from which a row is gone, or in which one says something else."""
    assert old in PAGE
    assert any(re.search(complaint, line) for line in licences.differences(PAGE.replace(old, new)))


def test_what_a_package_needs_is_followed() -> None:
    """Fails where the parts of parts are overlooked, or extras that nobody asked for are followed."""
    needed = licences.needed(licences.asked(""))
    assert {"prefect", "starlette", "llvmlite", "h2"} <= needed  # h2 by the extra http2 of httpx
    assert not {"hypothesis", "ruff", "torch"} & needed
    assert distribution("prefect").requires  # else nothing could be followed


def test_no_part_of_a_run_asks_for_more_than_the_licence_gives() -> None:
    """Fails where a run needs a package whose only licence is the GPL or its like; a choice is named on the page."""
    rows = re.findall(r"^\| ([^ |]+) \| \d[^ |]* \| (.*) \|$", PAGE, re.MULTILINE)
    strict = {name: text for name, text in rows if re.search(r"GPL|GNU|General Public", text)}
    assert {*strict} == {"text-unidecode", "docutils"} and "docutils" not in licences.needed(licences.asked(""))
    assert strict["text-unidecode"].startswith("Artistic License or ") and strict["docutils"].startswith(
        "Public Domain"
    )
    assert all(name in PAGE.partition("## ")[0] for name in strict)


def test_an_argument_that_means_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("| numpy | ", "| numpie | "))
    assert (licences.main(["--chekc"], page), licences.main(["--check"], page)) == (2, 1)
    assert "numpie" in capsys.readouterr().err
