"""The head of a report: what differs from the run before, what is worth a look, and the page in a browser."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from browser import browser, browser_path
from playwright.sync_api import Page
from small_recipe import Run, fill, new_world, note, page, prose, text_of

from corpora.store.manifest import Manifest
from flows.recipes.lock import Lock
from flows.recipes.privacy import Privacy
from flows.report.compared import RunComparison, format_change, format_figure, group_by_source
from flows.report.front import (
    FIRST_NOT_READ,
    MAX_LINE_CHARACTERS,
    build_growth_view,
    build_loss_view,
    build_source_rows,
    describe_held_out,
    list_remarks,
    list_unread,
)
from flows.report.page import build_page
from flows.report.run import RunView
from flows.run.record.figures import (
    MEAN,
    SHARE,
    Change,
    Figure,
    compare_figures,
    compute_figures,
    read_stored_manifests,
)
from flows.run.record.ledger_balance import build_accounts
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


def test_the_page_says_what_differs_from_the_run_before(two_runs: tuple[RunRecord, Run], html: str) -> None:
    """Fails if a number of the comparison is not that of the two runs' own figures."""
    before, run = two_runs
    text = text_of(html)
    assert "It began 2025-12-31 00:00:00 UTC;" in text and before.run_id in text
    documents = run.outcome.documents
    parsed = sum(manifest.count_rows("documents") for manifest in documents)
    assert f"documents {parsed - 6} {parsed} +6 (+" in text
    assert f"dropped: rules: gopher.min_words {SHORT + 1} +{SHORT}" in text
    assert "raw files 5 7 +2 (+40%)" in text and "Dropped from pages, generation 2" in text
    compared = RunComparison.from_figures(
        before, {}, compute_figures(run.place, read_stored_manifests(run.place, run.record))
    )
    assert len(compared.differences) == len(compared.changes) == html.count('<td class="figure">')


def test_what_moved_far_is_worth_a_look(two_runs: tuple[RunRecord, Run], html: str) -> None:
    """Fails if a reason that takes far more than before is not told at the head, or leads nowhere."""
    _, run = two_runs
    total = sum(m.ledger.find_account("records").total for m in run.outcome.documents)
    head = html[: html.index('class="tiles"')]
    share = format_figure((SHORT + 1) / total, SHARE, "")
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
    same = RunComparison.from_figures(before, view.figures or {}, view.figures or {})
    [found] = list_remarks(view, build_accounts(read_stored_manifests(run.place, run.record)), same)
    assert not found.is_wrong and "could not be read" in found.text
    damaged = tuple(replace(stage, reason="damaged (a.arrow: cut)") for stage in run.record.stages[:1])
    record = replace(run.record, stages=(*damaged, *run.record.stages[1:]))
    rebuilt = list_remarks(
        RunView(run.place, record, Privacy("text")), build_accounts(read_stored_manifests(run.place, run.record)), same
    )
    assert "was damaged and has been built again (damaged (a.arrow: cut))" in rebuilt[0].text


def test_languages_without_a_table_of_words_are_told(two_runs: tuple[RunRecord, Run]) -> None:
    """Fails if documents are not judged by stop words and nobody is told, or a few of them are worth a remark."""
    _, run = two_runs
    view = RunView(run.place, run.record, Privacy("text"))
    compared = RunComparison.from_figures(two_runs[0], view.figures or {}, view.figures or {})

    first, *others = view.parsed

    def remarks(number: int) -> list[str]:
        figures = {"no table of words: sk": number, "no table of words: un": 1}
        part, *rest = first.parts
        part = replace(part, ledger=replace(part.ledger, figures=figures))
        vars(view)["parsed"] = [replace(first, parts=(part, *rest)), *others]
        found = list_remarks(view, build_accounts(read_stored_manifests(run.place, run.record)), compared)
        return [remark.text for remark in found if "no table of stop words" in remark.text]

    [said] = remarks(first.count_rows("documents"))
    assert f"for sk ({first.count_rows('documents'):,}): these documents were not judged by stop words" in said
    assert remarks(0) == []


@pytest.mark.parametrize(
    ("settings", "share", "told"),
    [
        ({"lowercase": True}, 0.03, True),
        ({"lowercase": False, "strip_accents": True}, 0.03, True),
        ({"lowercase": True, "strip_accents": False}, 0.03, False),
        ({"lowercase": False}, 0.03, False),
        ({"lowercase": True}, 0.01, False),
        ({"files": "0" * 64}, 0.03, False),
    ],
)
def test_a_vocabulary_that_takes_marks_off_is_told(
    two_runs: tuple[RunRecord, Run], settings: dict[str, Any], share: float, told: bool
) -> None:
    """Fails if the vocabulary of a recipe makes one word of two in another language, and nobody is told."""
    before, run = two_runs
    view = RunView(run.place, run.record, Privacy("text"))
    compared = RunComparison.from_figures(before, view.figures or {}, view.figures or {})
    vars(view)["figures"] = {"language share: ja": Figure(value=share, unit="documents", kind=SHARE)}
    vars(view)["manifests"] = [
        replace(each, settings=settings) if each.kind == "vocabularies" else each for each in view.manifests
    ]
    found = list_remarks(view, build_accounts(read_stored_manifests(run.place, run.record)), compared)
    said = [
        remark.text for remark in found if "takes the marks off letters, which tell words apart in ja" in remark.text
    ]
    assert len(said) == told


def test_sources_that_came_and_went_are_told(two_runs: tuple[RunRecord, Run]) -> None:
    """Fails if a source that is gone is on no line of the head, or one that is new is not said to be."""
    before, run = two_runs
    view = RunView(run.place, run.record, Privacy("text"))
    assert view.figures is not None
    older = {name: figure for name, figure in view.figures.items() if not name.endswith(": notes")}
    gone = {f"{what}: old (2024)": Figure(value=7, unit="files", kind="count") for what in ("raw files", "documents")}
    compared = RunComparison.from_figures(before, {**older, **gone}, view.figures)
    said = [
        remark.text
        for remark in list_remarks(view, build_accounts(read_stored_manifests(run.place, run.record)), compared)
    ]
    assert "1 source is new: notes." in said and "1 source is gone: old (2024)." in said
    rows = {row["name"]: row for row in build_source_rows(view, compared)}
    assert (rows["old (2024)"]["documents"], rows["old (2024)"]["documents_change"]) == ("0", "-7 (-100%)")
    assert [*rows][-1] == "old (2024)" and rows["notes"]["documents_change"].startswith("+")


def test_the_first_screen_says_what_was_not_read(two_runs: tuple[RunRecord, Run]) -> None:
    """Fails if a source's files are left out of the head without a word, or everything is said to be read where the
    record does not say so."""
    _, run = two_runs
    group = {"kind": ".py", "number": 1468, "names": ["a.py", f"{'b' * 300}.py", "c.py"]}
    inputs: dict[str, Any] = {
        f"docs-{n}": {"raw_files": 8, "empty": [], "passed_over": [group]} for n in range(FIRST_NOT_READ + 2)
    }
    record = replace(run.record, inputs=inputs)
    text = text_of(build_page(run.place, record, "text", run.lock))
    head = text[: text.index("From raw to tokens")]
    assert "Not read docs-0: not read: 1,468 .py (a.py, bbb" in head and "And 2 lines more. more" in head
    assert "a.py" not in text_of(build_page(run.place, record, "none", run.lock))
    lines = list_unread(RunView(run.place, record, Privacy("text")), ["x" * 900] * 9)
    assert len(lines) == FIRST_NOT_READ + 1 and all(len(line) <= MAX_LINE_CHARACTERS for line in lines)
    silent, whole = replace(record, inputs={}), replace(record, inputs={"docs": {}})
    assert list_unread(RunView(run.place, silent, Privacy("text")), []) == []
    assert list_unread(RunView(run.place, whole, Privacy("text")), []) == [
        "No file: everything that the sources hold was read."
    ]


def with_none_held_out(tokens: Manifest) -> Manifest:
    """The same documents, all of them to be trained on."""
    ledgers = [replace(part.ledger, figures={**part.ledger.figures, "held-out documents": 0}) for part in tokens.parts]
    parts = [replace(part, ledger=ledger) for part, ledger in zip(tokens.parts, ledgers, strict=True)]
    return replace(tokens, parts=tuple(parts))


def test_the_first_screen_says_what_was_held_out(two_runs: tuple[RunRecord, Run], html: str) -> None:
    _, run = two_runs
    documents = sum(part.ledger.figures["held-out documents"] for part in run.manifest("tokens").parts)
    assert documents and f"Held out {documents} documents (" in text_of(html)
    view = RunView(run.place, run.record, Privacy("text"))
    assert describe_held_out(view).endswith("kept from training.")
    aside = RunView(run.place, run.record, Privacy("text"))
    without = [with_none_held_out(each) if each.kind == "tokens" else each for each in view.manifests]
    aside.__dict__["manifests"] = without
    assert describe_held_out(aside).startswith(
        "Nothing: of "
    ) and "none fell into the share of 0." in describe_held_out(aside)
    stages = tuple(stage for stage in run.record.stages if stage.kind != "tokens")
    assert describe_held_out(RunView(run.place, replace(run.record, stages=stages), Privacy("text"))) == ""


def test_growth_is_of_every_generation(two_runs: tuple[RunRecord, Run], finished: Run, html: str) -> None:
    """Fails if a generation's documents are counted in another's, or one generation is drawn as growth."""
    _, run = two_runs
    growth = build_growth_view(RunView(run.place, run.record, Privacy("text")))
    assert growth is not None
    assert [row["generation"] for row in growth["added"]] == [1, 2] and growth["added"][1]["documents"] == 6
    assert sum(row["documents"] for row in growth["added"]) == run.manifest("tokens").count_rows("tokens")
    assert (
        "Growth by generation" in html
        and build_growth_view(RunView(finished.place, finished.record, Privacy("text"))) is None
    )


@pytest.mark.parametrize(
    ("loss", "first", "said"),
    [
        (2.0, None, "Yes: it chooses as if among 7.4 equally likely tokens, not 100 (untrained) or 55 (by frequency)"),
        (3.95, None, "Barely: "),
        (
            4.1,
            4.4,
            "Not yet: it chooses as if among 60 equally likely tokens, and counting how frequent tokens are gives 55",
        ),
        (5.0, None, "No: it chooses as if among 148 equally likely tokens, worse than the 100 of a model that knows"),
        (None, None, "No: its loss is not a number."),
        (1e9, None, "No: it chooses as if among - "),
    ],
)
def test_whether_training_was_worth_it_is_one_sentence(loss: float | None, first: float | None, said: str) -> None:
    result = {"entropy": 4.0, "loss": loss, "accuracy": 0.25}
    training = {"result": result, "is_judged": True, "model": {"vocab_size": 100}, "first_loss": first}
    told = build_loss_view(training)
    assert told is not None and told["worth"].startswith(said)
    assert [row["name"] for row in told["rows"]][-1] == "this model" and len(told["rows"]) == 3 + (first is not None)
    assert told["rows"][0]["nats"] == pytest.approx(4.60517) and max(row["bar"] for row in told["rows"]) == 100
    assert build_loss_view(None) is None and build_loss_view({**training, "is_judged": False}) is None
    assert build_loss_view({**training, "result": None}) is None


def test_figures_by_source_are_of_the_first_vocabulary() -> None:
    names = ("tokens (a): notes", "tokens (b): notes", "tokens (a)", "documents: notes", "dropped: notes")
    changes = compare_figures({}, {name: Figure(value=1, unit="tokens", kind="count") for name in names})
    rows = group_by_source(changes, ("tokens", "documents"))
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
    assert format_change(Change(name="a", unit="tokens", kind=kind, before=before, after=after)) == told


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
    """Fails if the folded page is longer than two screens or so, or something is cut on a phone without a hint."""
    height = "document.documentElement.scrollHeight"
    assert opened.evaluate(height) < 3 * 800
    assert opened.evaluate("document.querySelector('figure.flow svg').getBoundingClientRect().top") < 800
    opened.set_viewport_size({"width": 390, "height": 844})
    assert opened.evaluate(height) < 5 * 844
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
def test_in_print_every_part_is_open(opened: Page) -> None:
    """Fails if a folded part stays folded on paper, where nobody can open it."""
    opened.evaluate(OPEN, False)
    seen = "all => all.map(one => one.checkVisibility() && one.getBoundingClientRect().height > 0)"
    parts = opened.locator("details .inside, details .card")
    assert not any(parts.evaluate_all(seen))
    opened.emulate_media(media="print")
    assert all(parts.evaluate_all(seen)) and parts.count() > 20
    opened.emulate_media(media="screen")
