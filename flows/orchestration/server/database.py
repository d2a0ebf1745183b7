"""Checks the database of the embedded orchestrator before a server opens it, and reports faults with their remedy.

It holds the history of runs on the orchestrator's pages, and nothing of any store.

Cost: all of it is read, a second for 500 MB: before `cloze ui` and `cloze serve`, and after a server failed.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.files import disk_refusal

LOCKED_SECONDS = 10.0  # a server writes for a moment at a time
OF_THE_USER = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
SHRINK_BYTES = 32_000_000  # less free space than this stays in the file
SHRINK_WAITS = 1.0  # seconds for a process that has it open
HEAD = b"SQLite format 3\0"
DAMAGED = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
LOCKED = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))


def database_of(prefect_home: Path) -> Path:
    """Return the path of a Prefect home's database."""
    return prefect_home / "prefect.db"


def check_database(prefect_home: Path) -> None:
    """Raise InputError if a server could not work with the database of a home.

    Nothing is checked if there is none yet, or the user's settings name a database of their own.
    """
    path = database_of(prefect_home)
    if any(os.environ.get(name) for name in OF_THE_USER) or not path.exists():
        return
    elsewhere = f"move the folder {prefect_home} away, or set CLOZE_HOME to another folder"
    try:
        with path.open("rb+") as file:
            head = file.read(len(HEAD))
        if head and head != HEAD:
            raise _damaged(path, "it does not begin as a database")
        with closing(sqlite3.connect(path, timeout=LOCKED_SECONDS, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")  # as for a write
            database.execute("ROLLBACK")
            if (fault := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise _damaged(path, str(fault).replace("\n", " "))
    except OSError as error:
        refusal = disk_refusal(error, elsewhere) or f"{error.strerror}: {elsewhere}"
        raise InputError(f"The orchestrator's database {path} cannot be opened: {refusal}.") from error
    except sqlite3.DatabaseError as error:
        raise _refused(path, error, elsewhere) from error


def shrink_database(prefect_home: Path, tell: Callable[[str], None]) -> None:
    """Free unused space of a home's database, if that is most of a large file and nobody has it open.

    Cost: the database is rewritten.
    """
    path = database_of(prefect_home)
    if any(os.environ.get(name) for name in OF_THE_USER) or not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=SHRINK_WAITS, isolation_level=None)) as database:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")  # first, so it is refused if another has it open
            free, size = _room(database)
            if free >= SHRINK_BYTES and 2 * free > size:
                database.execute("BEGIN EXCLUSIVE")
                database.execute("ROLLBACK")
                tell(f"Shrinking the orchestrator's database by {free / 1e6:,.0f} MB.")
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in LOCKED:
            tell(f"The orchestrator's database stays as large as it is ({error}).")


def _room(database: sqlite3.Connection) -> tuple[int, int]:
    """Return the free bytes of a database, and its size."""
    names = ("freelist_count", "page_count", "page_size")
    free, pages, size = (int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return free * size, pages * size


def _refused(path: Path, error: sqlite3.DatabaseError, elsewhere: str) -> InputError:
    """Return SQLite's error about a database as a paragraph."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in LOCKED:
        return InputError(
            f"The orchestrator's database {path} is locked by another process, and was for {LOCKED_SECONDS:.0f} s: end "
            f"that one (`fuser {path}` names it), or set CLOZE_HOME to another folder."
        )
    if code in DAMAGED or not code:
        return _damaged(path, str(error))
    return InputError(f"The orchestrator's database {path} cannot be used ({error}): {elsewhere}.")


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"The orchestrator's database {path} is damaged ({why}). It holds the history of runs, and nothing of any "
        f"store: move the folder {path.parent} away, and the next run makes a new one; or set CLOZE_HOME to another "
        "folder."
    )
