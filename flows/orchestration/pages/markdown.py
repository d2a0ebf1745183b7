"""The one place that sends text to the orchestrator's pages, which read it as Markdown; here it is escaped.

Titles, excerpts and locators come from anywhere, names from a recipe. As Markdown they could load pictures from other
machines in a reader's browser, make links, or hide their text. Everything that a page shows goes out here: cells of
tables, descriptions and tags are made `plain`, and our own Markdown is assembled from `in_row`,
`in_alt`, `in_code`, pictures, and the address of a report (`report_server.py`).

Log lines, names of runs and messages of states are not read as Markdown; one UI makes links of addresses in a log,
which show where they lead.

Promise: no text loads anything, links anywhere or draws. It is shown on one line. Costs one API call each; if the API
is lost, or a run has no server, nothing (`api_recorder.py`), and Prefect is not imported.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flows.orchestration.server.api_recorder import leave, recording

Row = Mapping[str, str]
Data = float | str | Sequence[Row]  # a bar from 0 to 100, Markdown of our own, or a table

JOINER = "\u2060"  # invisible everywhere, and not part of any construct

# Parts of a picture, link or definition, of an element or entity, of a fence, of an address that becomes a link.
_BROKEN = re.compile(r"\]|[<&`~@]|:(?=/)|www(?=\.)", re.IGNORECASE)
_BLOCK = re.compile(r"(?=[#>|=+*~`\-]|\d+[.)](\s|$))")


def plain(text: str) -> str:
    """Escape a text so that Markdown shows it as plain text, and anything else shows it the same.

    It works in both of the orchestrator's UIs: for one artifact, one reads the cells as Markdown, the other the
    description, and one makes links of addresses however they are escaped. So an invisible character goes into
    whatever makes pictures, links, elements, diagrams and blocks. Emphasis stays emphasis.

    >>> plain("![x](http://a.example) is\\n<b>bold</b>").replace(JOINER, "\\u2022")
    '![x]•(http:•//a.example) is <•b>bold<•/b>'
    >>> plain("rules: gopher.min_words, 1,234 of 5%")
    'rules: gopher.min_words, 1,234 of 5%'
    """
    line = _BROKEN.sub(lambda match: match[0] + JOINER, " ".join(text.split()))
    return JOINER + line if _BLOCK.match(line) else line


def in_row(text: str) -> str:
    """Escape a text for a cell of a table that is assembled as Markdown."""
    return plain(text).replace("\\", "\\\\").replace("|", r"\|")


def in_alt(text: str) -> str:
    """Escape a text for the description of a picture."""
    return re.sub(r"[\[\]\\]", "", plain(text))


def in_code(text: str) -> str:
    """Return a text as a line of code in Markdown, shown exactly as written, so that it can be copied."""
    return f"    {' '.join(text.split())}"


def as_address(svg: str) -> str:
    """Return a picture as an address that holds it."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def slug(text: str) -> str:
    """Return a key that Prefect accepts for an artifact: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def show_once(key: str, data: Data, description: str) -> None:
    """Show a table, or our own Markdown, as an artifact of the run that this is called in."""
    Living(key=key).show(data, description)


def show_tags(flow_run_id: UUID, tags: Iterable[str]) -> None:
    """Add tags to a flow run, which make it easy to find. tags: made plain"""
    from prefect.client.orchestration import get_client

    def change() -> None:
        with get_client(sync_client=True) as client:
            existing = client.read_flow_run(flow_run_id).tags
            client.update_flow_run(flow_run_id, tags=[*dict.fromkeys([*existing, *tags])])

    leave(change)


def log(line: str, level: str = "info") -> None:
    """Write a line to the log of the flow or task run that this is called in, if there is one."""
    mine = recording()
    if mine is not None and mine.kept is not None:
        mine.kept.add_line(line, level)
    if mine is None or mine.lost:
        return
    from prefect.logging import get_run_logger
    from prefect.runtime import flow_run

    if flow_run.id is not None:
        getattr(get_run_logger(), level)("%s", line)


def artifact(key: str, data: float | str | Sequence[Row], description: str) -> dict[str, Any]:
    """Return an artifact in the form in which an API takes it. data, description: made plain, or our own Markdown"""
    kinds: dict[type, str] = {float: "progress", str: "markdown"}
    shown = data if isinstance(data, (float, str)) else json.dumps(data)
    return {"key": slug(key), "type": kinds.get(type(data), "table"), "data": shown, "description": description}


def escape_braces(name: str) -> str:
    """Return a name that Prefect shows as it is: it fills in whatever is in braces.

    >>> escape_braces("tickets {2026}").format()
    'tickets {2026}'
    """
    return name.replace("{", "{{").replace("}", "}}")


@dataclass(kw_only=True)
class Living:
    """An artifact of the run that this is called in: created when it is first shown, changed in place afterwards."""

    key: str
    _id: UUID | None = None

    def show(self, data: Data, description: str) -> None:
        """Set the contents from now on."""
        rows = data if isinstance(data, (float, str)) else [{n: plain(text) for n, text in row.items()} for row in data]
        described, made = plain(description), self._id
        if (mine := recording()) is not None and mine.kept is not None:
            mine.kept.artifacts[slug(self.key)] = artifact(self.key, rows, described)
        elif made is None:
            self._id = leave(lambda: self._make(rows, described))
        else:
            leave(lambda: self._change(made, rows, described))

    def _make(self, data: Data, description: str) -> UUID | None:
        from prefect import artifacts

        if isinstance(data, float):
            made = artifacts.create_progress_artifact(data, key=slug(self.key), description=description)
        elif isinstance(data, str):
            made = artifacts.create_markdown_artifact(data, key=slug(self.key), description=description)
        else:
            rows = [dict(row) for row in data]
            made = artifacts.create_table_artifact(rows, key=slug(self.key), description=description)
        assert isinstance(made, UUID)
        return made

    def _change(self, made: UUID, data: Data, description: str) -> None:
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.actions import ArtifactUpdate

        given = data if isinstance(data, (float, str)) else json.dumps(data)
        with get_client(sync_client=True) as client:
            client.update_artifact(made, ArtifactUpdate(data=given, description=description))
