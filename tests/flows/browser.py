"""The orchestration UI as a person sees it: `cloze ui` on a free port, and a real browser on its pages.

with ui(home) as address:                        http://127.0.0.1:PORT
    with browser() as page:                      it reaches this machine alone
        open_run(page, address, run_id, "Logs")
        open_artifact(page, address, artifact_id)
"""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launched import LONG, PATIENCE, answers, left, start, wait_until
from playwright.sync_api import Page, expect, sync_playwright
from served_command import free_port

from flows.orchestration.embedded_server import PASSWORD, build_client_environment, identify_server

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    # The UI asks a host for settings of its analytics. One foreign name leads here, as its owner may have it.
    "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
PAGE_SECONDS = PATIENCE  # a busy machine takes its time


def browser_path() -> str | None:
    """Return the path of a Chromium; None without one."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


@contextmanager
def ui(home: Path) -> Iterator[str]:
    """`cloze ui` for the time of the block, stopped as with Ctrl-C; its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    process = start(home, "ui", "--port", str(port))
    assert process.stdout is not None
    try:
        wait_until(lambda: process.poll() is not None or answers(f"{address}/api"), LONG)
        assert process.poll() is None, process.stdout.read()
        assert wait_until(lambda: identify_server(home, port)), "its password is known from then on"
        yield address
    finally:
        os.killpg(process.pid, signal.SIGINT)
        if left(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@contextmanager
def browser(width: int = 1280, height: int = 800) -> Iterator[Page]:
    """A page of a new browser for the time of the block."""
    path = browser_path()
    assert path is not None, "there is no Chromium here"
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        page = chromium.new_page(viewport={"width": width, "height": height}, locale="en-GB", timezone_id="UTC")
        page.set_default_timeout(1000 * PAGE_SECONDS)
        expect.set_options(timeout=1000 * PAGE_SECONDS)
        yield page
        chromium.close()


def open_ui(page: Page, address: str) -> None:
    """The first page of the UI, by the link that `cloze ui` prints on a terminal."""
    secret = build_client_environment(f"{address}/api")[PASSWORD].partition(":")[2]
    page.goto(f"{address}/open#{secret}")
    page.wait_for_url(re.compile("/dashboard"))


def open_run(page: Page, address: str, run_id: str, tab: str) -> None:
    """The page of a flow run with one of its tabs: Details, Logs, TaskRuns, Artifacts, Parameters."""
    page.goto(f"{address}/v2/runs/flow-run/{run_id}?tab={tab}")


def open_artifact(page: Page, address: str, artifact_id: str) -> None:
    """The page that shows what an artifact holds."""
    page.goto(f"{address}/v2/artifacts/artifact/{artifact_id}")


def newest_lines(page: Page, address: str, run_id: str) -> None:
    """A run's log, the newest lines first: the page holds no more lines than it shows."""
    open_run(page, address, run_id, "Logs")
    page.get_by_role("combobox", name="log sort order").click()
    page.get_by_role("option", name="Newest to oldest").click()
    expect(page.get_by_role("log").get_by_text("Finished in state").first).to_be_visible()
