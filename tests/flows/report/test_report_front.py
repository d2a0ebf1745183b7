"""The head of a report: what differs from the run before, what is worth a look, and the page in a browser."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from browser import browser, browser_path
from playwright.sync_api import Page
from small_recipe import Run, fill, new_world, note, page, prose

from flows.recipes.lock import Lock
from flows.recipes.settings.privacy import Privacy
from flows.report.compared import Compared, by_source, change_text, figure_text
from flows.report.front import source_table
from flows.report.page import build_page
from flows.report.remarks import remarks_on
from flows.report.run import RunView
from flows.run.record.figures import MEAN, SHARE, Change, Figure, compare, figures_of
from flows.run.record.ledger_balance import accounts_of
from flows.run.record.run_record import RunRecord, write_run

SHORT = 9  # pages that came with the second generation and are too short


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Run]:
    """The first run of a store on record, and a second one with more pages, most of them too short."""
    world = fill(new_world(tmp_path_factory.mktemp("front") / "world"))
    first = world.run()
    before = replace(first.record, run_id="20251231T000000000000-small", started="2025-12-31T00:00:00+00:00")
    write_run(first.place, before, Lock())
    world.put("pages", "pages-9", [page(f"s{number}", f"Too short, number {number}.") for number in range(SHORT)])
    world.put("notes", "notes-9", [note(900 + number, prose(9000 + number)) for number in range(6)])
    return before, world.run()


@pytest.fixture(scope="module")
def html(two_runs: tuple[RunRecord, Run]) -> str:
    _, run = two_runs
    return build_page(run.place, run.record, "text", run.lock)


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_page_says_what_differs_from_the_run_before(two_runs: tuple[RunRecord, Run], html: str) -> None:
    """Fails where a number of the comparison is not that of the two runs' own figures."""
    before, run = two_runs
    text = text_of(html)
    assert "It began 2025-12-31 00:00:00 UTC;" in text and before.run_id in text
    documents = run.outcome.documents
    parsed = sum(manifest.rows("documents") for manifest in documents)
    assert f"documents {parsed - 6} {parsed} +6 (+" in text
    assert f"dropped: rules: gopher.min_words {SHORT + 1} +{SHORT}" in text
    assert "raw files 5 7 +2 (+40%)" in text
    compared = Compared.of(before, *(figures_of(run.place, m) for m in (run.manifests[:0], run.manifests)))
    assert len(compared.differing) == len(compared.changes) == html.count('<td class="figure">')


def test_what_moved_far_is_worth_a_look(two_runs: tuple[RunRecord, Run], html: str) -> None:
    """Fails where a reason that takes far more than before is not told at the head, or leads nowhere."""
    _, run = two_runs
    total = sum(m.ledger.account("records").total for m in run.outcome.documents)
    head = html[: html.index('class="tiles"')]
    share = figure_text((SHORT + 1) / total, SHARE, "")
    assert f"dropped share: rules: gopher.min_words: 1.8% in the run before, {share} now" in head
    assert "notes: 1 record could not be read" in head and '<a href="#compared">more</a>' in head
    assert "No damage" not in head


def test_without_an_older_run_the_page_says_so(finished: Run) -> None:
    text = text_of(build_page(finished.place, finished.record, "text"))
    assert "There is no older run of this recipe" in text and "change" not in text[: text.index("More:")]


def test_nothing_wrong_is_said_of_a_run_that_has_nothing(two_runs: tuple[RunRecord, Run]) -> None:
    """A run of the same figures as the one before has no finding but its own damaged record."""
    before, run = two_runs
    view = RunView(run.place, run.record, Privacy("text"))
    same = Compared.of(before, view.figures or {}, view.figures or {})
    [found] = remarks_on(view, accounts_of(run.manifests), same)
    assert not found.wrong and "could not be read" in found.text
    damaged = tuple(replace(stage, reason="damaged (a.arrow: cut)") for stage in run.record.stages[:1])
    record = replace(run.record, stages=(*damaged, *run.record.stages[1:]))
    rebuilt = remarks_on(RunView(run.place, record, Privacy("text")), accounts_of(run.manifests), same)
    assert "was damaged and has been built again (damaged (a.arrow: cut))" in rebuilt[0].text


def test_sources_that_came_and_went_are_told(two_runs: tuple[RunRecord, Run]) -> None:
    """Fails where a source that is gone is on no line of the head, or one that is new is not said to be."""
    before, run = two_runs
    view = RunView(run.place, run.record, Privacy("text"))
    assert view.figures is not None
    older = {name: figure for name, figure in view.figures.items() if not name.endswith(": notes")}
    gone = {f"{what}: old (2024)": Figure(value=7, unit="files", kind="count") for what in ("raw files", "documents")}
    compared = Compared.of(before, {**older, **gone}, view.figures)
    said = [remark.text for remark in remarks_on(view, accounts_of(run.manifests), compared)]
    assert "1 source is new: notes." in said and "1 source is gone: old (2024)." in said
    rows = {row["name"]: row for row in source_table(view, compared)}
    assert (rows["old (2024)"]["documents"], rows["old (2024)"]["documents_change"]) == ("0", "-7 (-100%)")
    assert [*rows][-1] == "old (2024)" and rows["notes"]["documents_change"].startswith("+")


def test_figures_by_source_are_of_the_first_vocabulary() -> None:
    names = ("tokens (a): notes", "tokens (b): notes", "tokens (a)", "documents: notes", "dropped: notes")
    changes = compare({}, {name: Figure(value=1, unit="tokens", kind="count") for name in names})
    rows = by_source(changes, ("tokens", "documents"))
    assert [change.name for change in rows["notes"].values()] == ["tokens (a): notes", "documents: notes"]
    assert [*rows] == ["notes"]


@pytest.mark.parametrize(
    ("before", "after", "kind", "told"),
    [
        (None, 3.0, MEAN, "new"),
        (3.0, None, MEAN, "gone"),
        (3.0, 3.0, MEAN, "same"),
        (485.0, 488.0, MEAN, "+3 (+1%)"),
        (1.25, 1.0, MEAN, "-0.250 (-20%)"),
        (0.0, 0.00002, SHARE, "+0.002 points"),
        (0.5, 0.25, SHARE, "-25.0 points"),
    ],
)
def test_a_change_in_words(before: float | None, after: float | None, kind: str, told: str) -> None:
    assert change_text(Change(name="a", unit="tokens", kind=kind, before=before, after=after)) == told


@pytest.fixture(scope="module")
def opened(html: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if browser_path() is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html, encoding="utf-8")
    with browser() as shown:
        shown.goto(path.as_uri())
        yield shown


# Elements that are cut at the edge of what is around them, and in no frame that can be moved and shows so.
CUT = """() => [...document.querySelectorAll("body *")].filter(one => !one.closest("svg")
    && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display != "inline"
    && !one.closest(".scroll, pre")).map(one => one.outerHTML.slice(0, 80))"""
OPEN = "open => document.querySelectorAll('details').forEach(one => one.open = open)"


@pytest.mark.slow
def test_the_page_fits_desktop_and_phone(opened: Page) -> None:
    """Fails where the folded page is longer than two screens or so, or something is cut on a phone without a hint."""
    height = "document.documentElement.scrollHeight"
    assert opened.evaluate(height) < 2.5 * 800
    opened.set_viewport_size({"width": 390, "height": 844})
    assert opened.evaluate(height) < 4.5 * 844
    for unfolded in (False, True):
        opened.evaluate(OPEN, unfolded)
        assert opened.evaluate("document.documentElement.scrollWidth") == 390
        assert opened.evaluate(CUT) == []
    shadow = "getComputedStyle(document.querySelector('.scroll')).backgroundImage"
    assert opened.evaluate(shadow).count("linear-gradient") == 4
    assert opened.locator("figure .hint").first.is_visible()
    opened.evaluate(OPEN, False)
    opened.set_viewport_size({"width": 1280, "height": 800})


@pytest.mark.slow
def test_a_link_opens_the_part_that_it_names(opened: Page) -> None:
    opened.evaluate(OPEN, False)
    assert not opened.locator("#losses").is_visible()
    opened.get_by_role("link", name="Lost").click()
    opened.locator("#losses").wait_for(state="visible")
    assert not opened.locator("#artifacts").is_visible()


@pytest.mark.slow
def test_in_print_every_part_is_open(opened: Page) -> None:
    """Fails where a folded part stays folded on paper, where nobody can open it."""
    opened.evaluate(OPEN, False)
    seen = "all => all.map(one => one.checkVisibility() && one.getBoundingClientRect().height > 0)"
    parts = opened.locator("details .inside, details .card")
    assert not any(parts.evaluate_all(seen))
    opened.emulate_media(media="print")
    assert all(parts.evaluate_all(seen)) and parts.count() > 20
    opened.emulate_media(media="screen")
