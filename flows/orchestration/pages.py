"""The one place where text leaves for the orchestrator's pages: there it is Markdown; here it is made to mean itself.

Titles, excerpts and locators come from anywhere, names from a recipe. As Markdown they could load pictures of other
machines in the browser of who looks, make links, or hide what they say. Everything that a page shows goes out here:
cells of tables, descriptions and tags are made `plain`, and Markdown of our own is put together from `in_row`,
`in_alt`, `in_code`, pictures, and the address of a report (`reports.py`).

Lines of the log, names of runs and messages of states are not Markdown there; one UI makes links of addresses in a log,
which show where they lead.

Promise: no text loads anything, links anywhere or draws. It is shown on one line. Costs a call of the API each; where
the API is lost, nothing (`recording.py`); where a run does without a server, an entry in its journal (`journal.py`),
and Prefect is not imported.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from flows.orchestration.journal import is_writing, is_written
from flows.orchestration.recording import leave

Row = Mapping[str, str]

JOINER = "\u2060"  # seen nowhere, and no part of any construct

# Of a picture, a link or a definition, of an element or an entity, a fence, an address that becomes a link by itself.
_BROKEN = re.compile(r"\]|[<&`~@]|:(?=/)|www(?=\.)", re.IGNORECASE)
_BLOCK = re.compile(r"(?=[#>|=+*~`\-]|\d+[.)](\s|$))")


def plain(text: str) -> str:
    """A text that is no more than text where it is read as Markdown, and is shown the same where it is not.

    That is so in both of the orchestrator's UIs: of the same artifact one reads the cells as Markdown, the other its
    description, and one makes links of addresses however they are escaped. So a sign that nobody sees goes into
    what makes pictures, links, elements, diagrams and blocks. Emphasis stays emphasis.

    >>> plain("![x](http://a.example) is\\n<b>bold</b>").replace(JOINER, "\\u2022")
    '![x]•(http:•//a.example) is <•b>bold<•/b>'
    >>> plain("rules: gopher.min_words, 1,234 of 5%")
    'rules: gopher.min_words, 1,234 of 5%'
    """
    line = _BROKEN.sub(lambda found: found[0] + JOINER, " ".join(text.split()))
    return JOINER + line if _BLOCK.match(line) else line


def in_row(text: str) -> str:
    """The same in a cell of a table that is put together as Markdown."""
    return plain(text).replace("\\", "\\\\").replace("|", r"\|")


def in_alt(text: str) -> str:
    """The same as what is said of a picture."""
    return re.sub(r"[\[\]\\]", "", plain(text))


def in_code(text: str) -> str:
    """A text as a line of code in Markdown, which is read as it is written: it can be copied."""
    return f"    {' '.join(text.split())}"


def as_address(svg: str) -> str:
    """A picture as an address that holds it."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def slug(text: str) -> str:
    """A key that Prefect takes for an artifact: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def show_table(key: str, rows: Iterable[Row], description: str) -> UUID | None:
    """A table as an artifact of the run that this is called in."""
    shown, described = _cells(rows), plain(description)
    if is_written("table", slug(key), json.dumps(shown), described):
        return None
    from prefect.artifacts import create_table_artifact

    return _id(leave(lambda: create_table_artifact(shown, key=slug(key), description=described)))


def show_markdown(key: str, markdown: str, description: str) -> UUID | None:
    """Markdown of our own as an artifact."""
    described = plain(description)
    if is_written("markdown", slug(key), markdown, described):
        return None
    from prefect.artifacts import create_markdown_artifact

    return _id(leave(lambda: create_markdown_artifact(markdown, key=slug(key), description=described)))


def show_tags(flow_run_id: UUID, tags: Iterable[str]) -> None:
    """What a flow run is found by, next to the tags that it has. tags: made plain"""
    from prefect.client.orchestration import get_client

    def change() -> None:
        with get_client(sync_client=True) as client:
            known = client.read_flow_run(flow_run_id).tags
            client.update_flow_run(flow_run_id, tags=[*dict.fromkeys([*known, *tags])])

    leave(change)


def log(line: str) -> None:
    """A line for the log of the task that this is called in; none where a run does without a server."""
    if not is_writing():
        from prefect.logging import get_run_logger

        get_run_logger().info("%s", line)


def _cells(rows: Iterable[Row]) -> list[dict[str, str]]:
    return [{name: plain(text) for name, text in row.items()} for row in rows]


def _id(made: object) -> UUID | None:
    assert made is None or isinstance(made, UUID)
    return made


@dataclass(kw_only=True)
class ProgressBar:
    """A bar on the pages of the run, from 0 to 100."""

    key: str
    description: str
    _id: UUID | None = None

    def show(self, percent: float, description: str | None = None) -> None:
        """How far it is from now on, and what is said of it."""
        self.description = description or self.description
        made, described = self._id, plain(self.description)
        if is_written("progress", slug(self.key), percent, described):
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if made is None:
            create = partial(create_progress_artifact, percent, key=slug(self.key), description=described)
            self._id = _id(leave(create, patient=False))
        else:
            leave(lambda: update_progress_artifact(made, percent, described), patient=False)


@dataclass(kw_only=True)
class Living:
    """An artifact of the task run that this is called in: made when it is first shown, changed in place afterwards."""

    key: str
    _id: UUID | None = None

    def show(self, data: str | Sequence[Row], description: str) -> None:
        """What it holds from now on: Markdown of our own, or rows of a table."""
        if self._id is not None:
            self._change(self._id, data if isinstance(data, str) else json.dumps(_cells(data)), plain(description))
        elif isinstance(data, str):
            self._id = show_markdown(self.key, data, description)
        else:
            self._id = show_table(self.key, data, description)

    def _change(self, made: UUID, data: str, description: str) -> None:
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.actions import ArtifactUpdate

        def change() -> None:
            with get_client(sync_client=True) as client:
                client.update_artifact(made, ArtifactUpdate(data=data, description=description))

        leave(change)
