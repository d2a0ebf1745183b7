"""Checks the database of the embedded orchestrator before a server opens it, and frees what it has of unused space.

A newer Prefect changes the database's tables, and an older one cannot use them any more: that is said before a server
fails on it.

It holds the history of runs on the orchestrator's pages, and nothing of any store.

Cost: all of it is read, a second for 500 MB: before `cloze ui` and `cloze serve`.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from importlib.metadata import distribution, version
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.locks import held

LOCKED_SECONDS = 10.0  # a server writes for a moment at a time
OF_THE_USER = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
SHRINK_BYTES = 32_000_000  # less free space than this stays in the file


def database_of(prefect_home: Path) -> Path:
    """Return the path of a Prefect home's database."""
    return prefect_home / "prefect.db"


def starting_turn(prefect_home: Path) -> AbstractContextManager[None]:
    """Wait for a server's turn to start: no other of its home starts meanwhile."""
    return held(prefect_home / "starting.lock")


def check_database(prefect_home: Path) -> None:
    """Raise InputError if a server could not work with the database of a home. Waits for one that starts there."""
    with starting_turn(prefect_home):
        fault = database_fault(prefect_home)
    if fault:
        raise InputError(" ".join(fault))


def database_fault(prefect_home: Path) -> tuple[str, str] | None:
    """Return why a server could not work with the database of a home, and what to do about it; None if it can.

    Nothing is checked if there is none yet, or the user's settings name a database of their own.
    """
    path = database_of(prefect_home)
    if any(os.environ.get(name) for name in OF_THE_USER) or not path.exists():
        return None
    anew = (
        f"move the folder {path.parent} away, and the next run makes a new one: it holds the history of runs, and "
        "nothing of any store. Or set CLOZE_HOME to another folder."
    )
    try:
        with closing(sqlite3.connect(path, timeout=LOCKED_SECONDS, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")  # as for a write
            database.execute("ROLLBACK")
            fault = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            unknown = unknown_revision(database) if fault == "ok" else ""
    except sqlite3.DatabaseError as error:
        fault = str(error)
    if fault != "ok":
        fault = " ".join(fault.split())
        said = f"The orchestrator's database {path} is damaged, or locked by another process ({fault})."
        return said, f"If `fuser {path}` names a process, end that one. Else {anew}"
    if unknown:
        said = (
            f"The orchestrator's database {path} was written by a newer Prefect than {version('prefect')}, which is "
            f"installed here and lacks its revision {unknown}."
        )
        return said, f"Use it with the installation that wrote it. Else {anew}"
    return None


def unknown_revision(database: sqlite3.Connection) -> str:
    """Return the revision of a database's tables if the installed Prefect has no step that leads to it; else "".

    Prefect keeps the revision as Alembic does, and its steps are files that have it in their names.
    """
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return ""
    revision = "".join(database.execute("SELECT version_num FROM alembic_version").fetchone() or ())
    folder = "prefect/server/database/_migrations/versions/sqlite"
    steps = list(Path(str(distribution("prefect").locate_file(folder))).glob("*.py"))
    return revision if steps and not any(f"_{revision}_" in step.name for step in steps) else ""


def shrink_database(prefect_home: Path, tell: Callable[[str], None]) -> None:
    """Free the unused space of a home's database, if that is most of a large file and nobody has it open.

    Cost: the database is rewritten.
    """
    path = database_of(prefect_home)
    if any(os.environ.get(name) for name in OF_THE_USER) or not path.exists():
        return
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, 1.0, isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")  # first, so it is refused if another has it open
        names = ("freelist_count", "page_count", "page_size")
        free, pages, size = (int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
        if free * size >= SHRINK_BYTES and 2 * free > pages:
            tell(f"Shrinking the orchestrator's database by {free * size / 1e6:,.0f} MB.")
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
