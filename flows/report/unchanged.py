"""A run with nothing new: its page is the head alone, and the parts are those of an earlier run's page.

Promise: the run whose page is named used the same artifacts with the same recipe, settings and inputs, and its page
exists and has all parts. Where there is none, the page is written whole. So a schedule with nothing new for months
keeps one whole page, and some kilobytes a run.
Cost: the record of the run before, and its page.
"""

import re
from html import unescape

from corpora.store.places.place import Place
from flows.run.record.figures import run_before
from flows.run.record.run_record import RunRecord

MARK = re.compile(rb'<meta name="cloze-parts" content="([^"]*)">')
HEAD_BYTES = 4_096  # in which the mark is


def run_with_the_parts(place: Place, record: RunRecord) -> str:
    """Return the run whose page has the parts of a run that reused everything; "" where its page must be whole."""
    if any(stage.state != "reused" for stage in record.stages):
        return ""
    before = run_before(place, record, lambda line: None)
    if before is None or _told(before) != _told(record):
        return ""
    try:
        page = place.read(_page_of(before.run_id))
    except FileNotFoundError:
        return ""
    marked = MARK.search(page[:HEAD_BYTES])
    if marked is None:
        return before.run_id
    run_id = unescape(marked[1].decode())
    return run_id if place.size(_page_of(run_id)) is not None else ""


def _told(record: RunRecord) -> tuple[object, ...]:
    """Return everything that the parts of a page depend on."""
    return {stage.folder for stage in record.stages}, record.recipe_toml, record.overrides, record.inputs


def _page_of(run_id: str) -> str:
    return f"runs/{run_id}/report.html"
