"""Serves the reports of runs next to the UI: our server shows the report of a flow run at an address of its own.

    /cloze/report/FLOW RUN/RUN/report.html

A page of the UI may not link to a file of this machine: browsers refuse that. So the Prefect home records the store of
each flow run, and the servers of that home read the report there. They serve nothing of a store but the reports of its
runs, which load nothing and hold no scripts. A server of the user's own does not do this: there the pages show the
command that writes the report and says where it is.

Cost: a small file for each flow run, of which the newest stay; a read of the store for each view.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

from corpora.errors import InputError
from corpora.store.places.files import replaced_file
from corpora.store.places.place import Place

if TYPE_CHECKING:
    from fastapi import FastAPI

MOST = 2_000  # flow runs that are kept
PATH = "/cloze/report"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def report_path(flow_run_id: str, run_id: str) -> str:
    """Return the path at which our server shows the report of a flow run.

    >>> report_path("5e0c", "2026-R&D (new)")
    '/cloze/report/5e0c/2026-R%26D%20%28new%29/report.html'
    """
    return f"{PATH}/{flow_run_id}/{quote(run_id, safe='')}/report.html"


def keep_store(prefect_home: Path, flow_run_id: str, place: Place) -> None:
    """Record the store of a flow run. Raises OSError."""
    folder = prefect_home / "reports"
    folder.mkdir(exist_ok=True)
    with replaced_file(folder / f"{UUID(flow_run_id)}.json") as new:
        new.write_text(json.dumps({"store": place.at("")}))
    newest_last = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in newest_last[:-MOST]:
        path.unlink(missing_ok=True)


def report_of(prefect_home: Path, flow_run_id: str, run_id: str) -> bytes | None:
    """Read the report of a run in the store of a flow run; None if there is none, or it cannot be read."""
    if "/" in run_id or run_id.startswith("."):
        return None
    try:
        kept = json.loads((prefect_home / "reports" / f"{UUID(flow_run_id)}.json").read_text())
        return Place(str(kept["store"])).read(f"runs/{run_id}/report.html")
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None


def add_reports(app: "FastAPI", prefect_home: Path) -> None:
    """Make a server show reports."""
    from fastapi.responses import HTMLResponse, PlainTextResponse

    def show(flow_run_id: str, run_id: str) -> Any:
        page = report_of(prefect_home, flow_run_id, run_id)
        if page is None:
            message = (
                "This report does not exist (yet): it is written when the run ends. `cloze report` writes it again."
            )
            return PlainTextResponse(message, 404)
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})

    app.add_api_route(f"{PATH}/{{flow_run_id}}/{{run_id}}/report.html", show, response_model=None)
    app.router.routes.insert(0, app.router.routes.pop())  # the UI takes every address that comes after it
