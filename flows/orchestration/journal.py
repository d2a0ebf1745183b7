"""Records of runs that were done without a server, kept until one of this home takes them.

A run of which the store holds everything starts no server (`reusing.py`), and one that waits for a server in vain does
without (`performing.py`): what its pages would have shown is put here as one file, sealed, and in place at once. Every
server of ours looks here while it runs and takes what it finds (`taking.py`), once each: the file tells the ids that
the flow run and its tasks have on record.

Cost: a file of some kilobytes a run. Nothing here needs the orchestrator.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from corpora.errors import InputError
from corpora.store.damage import Damaged, seal, unseal
from corpora.store.files import disk_refusal, replaced_file


def moment() -> str:
    """Now, in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat()


def new_id() -> str:
    """What something will be on record as."""
    return str(uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An artifact as it is shown. kind, data: as the orchestrator knows them (table, markdown, progress)"""

    kind: str
    key: str
    data: str | float
    description: str
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task: when it began and ended, what was said of it, and what its pages show. state: reused, or built"""

    name: str
    began: str
    ended: str
    message: str
    pages: tuple[Page, ...] = ()
    state: str = "Reused"
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """A run that ended well. lines: of its log, each with its moment"""

    name: str
    parameters: dict[str, str]
    began: str
    ended: str
    message: str
    tasks: tuple[TaskEntry, ...]
    pages: tuple[Page, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    id: str = field(default_factory=new_id)

    def to_bytes(self) -> bytes:
        """A form for a file, sealed."""
        return seal(json.dumps(asdict(self), indent=1).encode())

    @staticmethod
    def from_bytes(data: bytes, path: str) -> "RunEntry":
        """The entry that `to_bytes` wrote. Raises Damaged."""
        fields = unseal(data, path)
        try:
            tasks = tuple(TaskEntry(**{**task, "pages": _pages(task)}) for task in fields["tasks"])
            lines = tuple((when, said) for when, said in fields["lines"])
            given = {"tasks": tasks, "pages": _pages(fields), "lines": lines, "tags": tuple(fields["tags"])}
            return RunEntry(**{**fields, **given})
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(path, f"it is no record of a run ({error})") from error


def _pages(fields: dict[str, Any]) -> tuple[Page, ...]:
    return tuple(Page(**page) for page in fields["pages"])


def flow_called(recipe: str) -> str:
    """What the flow of a recipe is called, so that the orchestrator keeps the runs of each recipe apart.

    >>> flow_called("tickets"), flow_called("R&D/notes")
    ('tickets', 'R-D-notes')
    """
    return re.sub("[/%&<>]", "-", recipe)


def journal_of(prefect_home: Path) -> Path:
    """The folder of the entries of a Prefect home."""
    return prefect_home / "journal"


def keep(prefect_home: Path, entry: RunEntry) -> None:
    """Put an entry. Raises InputError where the disk refuses it."""
    path = journal_of(prefect_home) / f"{entry.began.replace(':', '')}-{entry.id}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        with replaced_file(path) as new:
            new.write_bytes(entry.to_bytes())
    except OSError as error:
        refusal = disk_refusal(error, "set CLOZE_HOME to another folder") or error.strerror
        raise InputError(f"The record of this run cannot be kept in {path.parent}: {refusal}.") from error


def kept(prefect_home: Path) -> list[Path]:
    """The files of the entries that wait, oldest first."""
    return sorted(path for path in journal_of(prefect_home).glob("*.json") if not path.name.startswith("."))


_writing: ContextVar[list[Page] | None] = ContextVar("writing", default=None)


def is_writing() -> bool:
    """Whether pages go into an entry in this context, and not to an API."""
    return _writing.get() is not None


def is_written(kind: str, key: str, data: str | float, description: str) -> bool:
    """Whether a page goes into an entry in this context: then it is put there, in place of one with its key."""
    if (pages := _writing.get()) is None:
        return False
    others = [page for page in pages if page.key != key]
    pages[:] = [*others, Page(kind=kind, key=key, data=data, description=description)]
    return True


@contextmanager
def writing_pages() -> Iterator[list[Page]]:
    """For the time of the block pages that are shown are collected, and no API is asked."""
    pages: list[Page] = []
    token = _writing.set(pages)
    try:
        yield pages
    finally:
        _writing.reset(token)
