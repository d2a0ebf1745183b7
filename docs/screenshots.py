"""The pictures of the README and the tutorial: `.venv/bin/python docs/screenshots.py [FOLDER]` makes them again.

Without FOLDER these are the README's and its example of a report. FOLDER is one in which the tutorial was gone through
(CLOZE_TUTORIAL=FOLDER runs it there: tests/flows/test_walkthroughs.py); the pictures are the tutorial's then.

The demo is built into a folder that is removed afterwards, recorded by a server of its own (`cloze ui`), and looked
at with a Chromium of 1,280 by 800 points in English and UTC. So two sets differ in dates, times, and where the tasks
of the graph are. Each picture is kept in 256 colours, which halves it or better.
Cost: the time of the demo and a minute (3.5 minutes in all on two busy x86-64 cores).
"""

import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
EXAMPLE = ROOT / "docs" / "example-report.html"
USUAL_ADDRESS = "http://127.0.0.1:4200"  # of `cloze ui`
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "flows")]  # the tests of the UI drive the same browser
PAGES = {
    "ledger": "ledger-documents-python-docs",
    "lineage": "lineage-demo",
    "loss": "loss-models-demo",
}
COLOURS = 256
ZOOM_TICKS = 5
CORNER = (24, 40)  # where the first bar then is in its frame
CENTRE = (114, 26)  # the button that fits the graph into its frame, in points from the frame's right and lower edge
SETTLE_MILLISECONDS = 3000  # until the graph has arranged itself


def main(arguments: Sequence[str]) -> None:
    """Keep what the pages of a run look like: of the demo, or of a tutorial."""
    from browser import browser_path

    if browser_path() is None:
        sys.exit("No Chromium is installed: apt-get install chromium.")
    if arguments:
        take_tutorial(Path(arguments[0]))
    else:
        take_demo()


def take_tutorial(folder: Path) -> None:
    """The pictures of the tutorial: the head of its first report, and the loss in its last."""
    from browser import browser

    reports = sorted((folder / "store" / "runs").glob("*/report.html"))
    with browser(1100, 900) as page:
        page.goto(reports[0].resolve().as_uri())
        keep(page.screenshot(), "tutorial-report")
        page.goto(reports[-1].resolve().as_uri())
        keep(page.locator("figure.curve svg").first.screenshot(), "tutorial-loss")


def take_demo() -> None:
    """The pictures of the README: the demo is run, recorded, and looked at."""
    from browser import browser, ui
    from launched import ask, new_home

    with tempfile.TemporaryDirectory(prefix="cloze-screenshots-") as scratch:
        folder = Path(scratch)
        home = new_home(folder)
        with ui(home) as address:
            run_demo(home, folder / "store", f"{address}/api")
            [run] = ask(f"{address}/api", "flow_runs")
            artifacts = {artifact["key"]: artifact["id"] for artifact in ask(f"{address}/api", "artifacts")}
            with browser() as page:
                take_all(page, address, run["id"], artifacts)
                [report] = (folder / "store" / "runs").glob("*/report.html")
                page.goto(report.as_uri())
                keep(page.screenshot(), "report")
            text = report.read_text(encoding="utf-8").replace(str(folder / "store"), "store")
            EXAMPLE.write_text(text.replace(address, USUAL_ADDRESS), encoding="utf-8")


def run_demo(home: Path, store: Path, api: str) -> None:
    """Run the demo recipe, recorded by this server; its lines go to the terminal."""
    from launched import environment

    command = [sys.executable, "-m", "flows.main", "run", "demo", "--store", str(store)]
    subprocess.run(command, cwd=home, env=environment(home, api), check=True)


def take_all(page: "Page", address: str, run_id: str, artifacts: dict[str, str]) -> None:
    """The pages of the UI: the run, the artifacts of PAGES, the log."""
    from browser import newest_lines, open_artifact, open_run

    open_run(page, address, run_id, "TaskRuns")
    zoom_into_graph(page)
    keep(page.screenshot(), "run")
    for name, key in PAGES.items():
        open_artifact(page, address, artifacts[key])
        page.get_by_role("tab", name="Raw").wait_for()
        page.wait_for_timeout(SETTLE_MILLISECONDS)
        keep(page.screenshot(), name)
    newest_lines(page, address, run_id)
    page.get_by_text("evaluation").first.scroll_into_view_if_needed()
    keep(page.screenshot(), "log")


def zoom_into_graph(page: "Page") -> None:
    """The beginning of the run's graph, near enough to read: as a whole it shows little but the training."""
    graph = page.locator("canvas").first
    graph.wait_for()
    page.wait_for_timeout(SETTLE_MILLISECONDS)
    frame = graph.bounding_box()
    assert frame is not None
    left, top = frame["x"], frame["y"]
    page.mouse.click(left + frame["width"] - CENTRE[0], top + frame["height"] - CENTRE[1])
    page.wait_for_timeout(SETTLE_MILLISECONDS)
    bar = first_bar(graph.screenshot())
    page.mouse.move(left + bar[0], top + bar[1])
    for _ in range(ZOOM_TICKS):
        page.mouse.wheel(0, -200)
        page.wait_for_timeout(300)
    page.mouse.down()
    page.mouse.move(left + CORNER[0], top + CORNER[1], steps=20)
    page.mouse.up()
    page.wait_for_timeout(SETTLE_MILLISECONDS)


def first_bar(picture: bytes) -> tuple[int, int]:
    """Return where the leftmost bar of a graph begins: x, y. Bars of finished work are green."""
    with Image.open(io.BytesIO(picture)) as image:
        red, green, blue = (np.asarray(band, dtype=np.int16) for band in image.convert("RGB").split())
    rows, columns = np.nonzero((green - red > 60) & (green - blue > 40))
    first = columns.argmin()
    return int(columns[first]), int(rows[first])


def keep(taken: bytes, name: str) -> None:
    """Save a picture under its name."""
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / f"{name}.png"
    with Image.open(io.BytesIO(taken)) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}  {picture.width}x{picture.height}  {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
