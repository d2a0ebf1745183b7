"""The orchestration UI, seen in a real browser: what Cloze draws, links to and shows of texts on the pages of a run.

What Prefect's own pages list of a run is read through the API in test_run_prefect.py. Skipped where no Chromium is
installed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from browser import browser, browser_path, newest_lines, open_artifact, open_ui, ui
from hostile_texts import HOSTILE, TARGETS
from launched import ask, cloze, new_home, post, request, wait_until
from playwright.sync_api import Page, expect
from small_recipe import RECIPE, World, new_world, note, prose
from small_recipe import page as wiki_page

from corpora.store.manifest import Manifest
from corpora.store.stage import list_manifests
from flows.orchestration.pages import escape_markdown, render_lineage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.skipif(browser_path() is None, reason="no Chromium is installed (Debian: apt-get install chromium)"),
]

STEPS = 30
MODEL = f"""
model = {{ layers = 1, hidden_size = 32, heads = 2, feed_forward_size = 64, max_length = 64 }}
training = {{ learning_rate = 1e-2, phase = [{{ steps = {STEPS}, batch = 8 }}] }}
"""


class Site(NamedTuple):
    """A server with its UI, the run that it has on record, and the flow below it that trains."""

    address: str
    world: World
    completed: dict[str, Any]
    training: dict[str, Any]

    @property
    def api(self) -> str:
        return f"{self.address}/api"


def make_world(folder: Path) -> World:
    """Some pages, one of them too short to stay and one a copy of another, and two notes."""
    world = new_world(folder, MODEL + RECIPE.replace('"small"', '"seen"'))
    pages = [wiki_page(str(number), prose(number)) for number in range(24)]
    short = [wiki_page("short", "Too short to stay."), {**wiki_page("odd", HOSTILE[3]), "title": HOSTILE[0]}]
    world.put("pages", "pages", [*pages, wiki_page("copy", prose(5)), *short])
    world.put("notes", "notes", [note(number, prose(1000 + number)) for number in range(2)])
    return world


@pytest.fixture(scope="module")
def site(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("ui")
    home, world = new_home(folder, database), make_world(folder / "world")
    with ui(home) as address:
        command = ["run", str(world.recipe_path), "--workers", "1"]
        done = cloze(home, *command, api=f"{address}/api")
        assert done.returncode == 0, done.stdout
        run, training = sorted(ask(f"{address}/api", "flow_runs"), key=lambda run: bool(run["parent_task_run_id"]))
        yield Site(address, world, run, training)


@pytest.fixture(scope="module")
def page(site: Site) -> Iterator[Page]:
    with browser() as opened:
        open_ui(opened, site.address)
        yield opened


def artifact_ids(site: Site) -> dict[str, str]:
    """Key and id of each artifact of the run, and of the flow below it."""
    of_run = {"id": {"any_": [site.completed["id"], site.training["id"]]}}
    return {artifact["key"]: artifact["id"] for artifact in ask(site.api, "artifacts", flow_runs=of_run)}


def manifest_of(site: Site, kind: str, name: str) -> Manifest:
    [manifest] = list_manifests(site.world.place, kind, name)
    return manifest


def rows(page: Page) -> list[list[str]]:
    """The cells of the one table of a page."""
    expect(page.locator("table tbody tr td").first).to_be_visible()
    return [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in page.locator("tbody tr").all()]


def test_a_hostile_text_is_no_more_than_text(site: Site, page: Page) -> None:
    """Fails if a text of a document, a name or a message loads, links to or draws anything in either UI."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    run = post(
        f"{site.api}/flow_runs/", flow_id=site.completed["flow_id"], name=HOSTILE[3], state=failed_by(HOSTILE[3])
    )
    request(f"{site.api}/logs/", [log_line(run["id"], text) for text in HOSTILE])
    models = [replace(manifest_of(site, "models", "seen"), name=text.replace("/", "")) for text in HOSTILE]
    table = post(f"{site.api}/artifacts/", key="odd", type="table", description=escape_markdown(" ".join(HOSTILE)),
                 data=json.dumps([{"odd": escape_markdown(text)} for text in HOSTILE]))  # fmt: skip
    drawn = post(
        f"{site.api}/artifacts/",
        key="drawn",
        type="markdown",
        data=render_lineage(models),
        description=escape_markdown(HOSTILE[0]),
    )
    artifacts = [artifact_ids(site)["dropped-documents-pages"], table["id"], drawn["id"]]
    for path in ("/v2", ""):
        for artifact in artifacts:
            look_at(page, f"{site.address}{path}/artifacts/artifact/{artifact}")
        look_at(page, f"{site.address}{path}/artifacts")
        for tab in ("Logs", "Details"):
            # Text it is, but one UI makes a link of an address there, which shows where it leads.
            look_at(page, f"{site.address}{path}/runs/flow-run/{run['id']}?tab={tab}", "*:not(a)")
    assert not [url for url in asked if any(target in url for target in TARGETS)]
    request(f"{site.api}/flow_runs/{run['id']}", method="DELETE")  # the dashboard counts what ran


# All that the elements of a page lead to, or load.
ADDRESSES = """all => all.flatMap(one => ["href", "src", "srcset", "xlink:href", "background", "action", "style"]
    .map(name => one.getAttribute(name)).filter(value => value))"""


def look_at(page: Page, url: str, looked_at: str = "*") -> None:
    """A page of the UI on which hostile texts are shown; of the elements that are looked at none leads there."""
    page.goto(url)
    expect(page.get_by_text("evil.example").or_(page.get_by_text("1.png")).first).to_be_attached()
    page.wait_for_load_state("networkidle")
    links = page.locator(looked_at).evaluate_all(ADDRESSES)
    assert links and not [link for link in links if any(target in link for target in TARGETS)], url


def failed_by(message: str) -> dict[str, str]:
    return {"type": "FAILED", "name": "Failed", "message": message}


def log_line(run_id: str, message: str) -> dict[str, Any]:
    return {
        "name": "cloze",
        "level": 20,
        "flow_run_id": run_id,
        "message": message,
        "timestamp": "2026-01-01T00:00:00Z",
    }


def test_the_lineage_is_drawn(site: Site, page: Page) -> None:
    """Fails if one of the two UIs leaves the picture as its source, or does not say where the report is."""
    for path in ("/v2", ""):
        page.goto(f"{site.address}{path}/artifacts/artifact/{artifact_ids(site)['lineage-seen']}")
        image = page.get_by_role("img", name="what came from what")
        expect(image).to_be_visible()
        assert image.evaluate("image => image.complete && image.naturalHeight") > 500
        model = manifest_of(site, "models", "seen")
        expect(page.get_by_role("cell", name=model.fingerprint)).to_be_visible()
        expect(page.get_by_text(f"cloze report {quote(site.world.place.to_address(''))} --run ")).to_be_visible()


def test_the_report_opens_from_the_page_of_its_run(site: Site, page: Page) -> None:
    """Fails if a person in one of the UIs cannot get to the report with a click, or back from it."""
    for path in ("/v2", ""):
        page.goto(f"{site.address}{path}/artifacts/artifact/{artifact_ids(site)['report-seen']}")
        expect(page.get_by_text(f"cloze report {quote(site.world.place.to_address(''))} --run ").first).to_be_visible()
        with page.context.expect_event("response", lambda answer: "/cloze/report/" in answer.url) as answered:
            page.get_by_role("link", name="The report of this run").click()
        assert answered.value.status == 401 and answered.value.headers["content-security-policy"]  # the page that asks
        report = page_at(page, "/cloze/report/")
        expect(report.get_by_role("heading", name="seen", exact=True)).to_be_visible()
        report.get_by_role("link", name="flow run").click()
        expect(report.get_by_text(site.completed["name"]).first).to_be_visible()
        if report is not page:
            report.close()


def page_at(page: Page, part: str) -> Page:
    """The page of the browser whose address has this in it, as soon as there is one."""
    for _ in range(100):
        if found := [one for one in page.context.pages if part in one.url]:
            return found[0]
        page.wait_for_timeout(100)
    raise AssertionError(f"no page is at {part}")


def test_the_loss_curve_is_drawn(site: Site, page: Page) -> None:
    """Fails if the picture, the newest figures or the trainer's lines are not on the pages of the run."""
    [bar] = [one for one in ask(site.api, "artifacts") if one["id"] == artifact_ids(site)["training-seen"]]
    assert bar["data"] == 100 and f"{STEPS} of {STEPS} steps" in bar["description"]
    open_artifact(page, site.address, artifact_ids(site)["loss-models-seen"])
    image = page.get_by_role("img", name="loss curve of models/seen", exact=True)
    expect(image).to_be_visible()
    assert wait_until(lambda: image.evaluate("image => image.complete && image.naturalWidth") > 300)
    expect(page.get_by_text(f"models/seen: step {STEPS} of {STEPS}, masked loss")).to_be_visible()
    open_artifact(page, site.address, artifact_ids(site)["metrics-models-seen"])
    newest, before, *_ = rows(page)
    assert newest[:2] == [str(STEPS), "held out"] and before[:2] == [str(STEPS), "training"]
    newest_lines(page, site.address, site.training["id"])
    expect(page.get_by_text(re.compile(rf"^evaluation {STEPS}/{STEPS}: loss [\d.]+, masked loss"))).to_be_attached()


def test_one_element_says_where_the_run_is(site: Site, page: Page) -> None:
    """Fails if a person has to add tasks up to know how far a run is, or the five lines are not those of the recipe."""
    open_artifact(page, site.address, artifact_ids(site)["progress-seen"])
    shown = [row[:2] for row in rows(page)]
    assert shown == [[group, "done"] for group in ("data", "vocabulary", "shards", "train")]
