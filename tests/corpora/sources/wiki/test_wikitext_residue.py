"""The search for residue and holes: that it finds what it names, and what it finds in the prose of real pages."""

from collections import Counter
from pathlib import Path

import pytest
from labelled_cases import cases_of

from benchmarks import residue
from benchmarks.residue import HOLES, RESIDUE, RESIDUE_ELSEWHERE, PageProse, find

FOUND = cases_of(__file__, "residue")
CLEAN = (
    "The arrays are int[] and f(). Prices in $ and € rose to $5 (£4), of 5 km. It was between 3 and 4, born 1950 "
    "(born 1950; died 1990), and no. 5 of the set. A city, which is old; (as they say) it has a population of 500."
)


def test_each_kind_has_a_sentence_that_shows_it() -> None:
    """Fails if a kind is never found, or found where it is not."""
    assert set(FOUND) == {*RESIDUE, *RESIDUE_ELSEWHERE, *HOLES}
    for kind, sentence in FOUND.items():
        findings = find([PageProse("a page", sentence, wiki="de" if kind in RESIDUE_ELSEWHERE else "en")])
        assert (findings.residue + findings.holes)[kind] >= 1, kind
    clean = find([PageProse("a page", CLEAN)])
    assert clean.sentences >= 4 and not clean.residue and not clean.holes
    lost = find([PageProse("a page", CLEAN, "de", ("{{x}}",)), PageProse("another", FOUND["link"], "fr")])
    assert lost.by_wiki["de"] == {"sentences": clean.sentences, "residue": 0, "lost": 1}
    assert lost.by_wiki["fr"]["residue"] == 1 and "  de " in "\n".join(lost.lines(0))


def check_prose(paths: list[Path], least_sentences: int, written: int = 0) -> None:
    """Check the prose of all pages below the paths. written: marks that the writers of other wikis wrote as text."""
    findings = find(page for path in paths for page in residue.prose(path))
    assert findings.sentences > least_sentences
    assert not {"link", "template", "table", "reference", "no-break space"} & findings.residue.keys()
    assert findings.residue.total() < 3 * findings.sentences / residue.PER
    # All of those left were read: they are writers' own, such as "the ;: pair (dating to No. 2)".
    assert findings.holes.total() < 3 * findings.sentences / residue.PER
    others = sum((counts for wiki, counts in findings.by_wiki.items() if wiki != "en"), Counter[str]())
    assert others["sentences"] > 3_000
    assert others["residue"] - written <= others["sentences"] / residue.PER
    assert others["lost"] <= 2 * others["sentences"] / residue.PER


def test_real_pages_are_without_residue_and_holes(shared: Path) -> None:
    """Fails on a single mark of the five that count, on other scraps or hints of holes in 3 of 10,000 sentences."""
    folder = shared / "data" / "wikipedia"
    check_prose([folder / "wikitext", folder / "minidumps", folder / "enwiki-20120104-pages"], 8_000)


@pytest.mark.long
def test_all_dumps_are_without_residue_and_holes(shared: Path) -> None:
    """The same of whole dumps. Wiktionary is left out: its articles are lists of templates of its own.

    A page of the Latgalian wiki explains HTML (2 marks), three have "km2" and "m3" as text.
    """
    folder = shared / "data" / "wikipedia"
    check_prose([path for path in sorted(folder.iterdir()) if "wiktionary" not in path.name], 30_000, 5)
