"""The orchestrator's database as it may be found: what is wrong is one paragraph that names the file and a remedy."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from launched import cloze, new_home
from small_recipe import fill, new_world

from corpora.errors import InputError
from flows.orchestration import embedded_server as module
from flows.orchestration.embedded_server import (
    USER_DATABASE_SETTINGS,
    check_database,
    get_database_path,
    shrink_database,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Prefect home with a database of some pages."""
    with closing(sqlite3.connect(get_database_path(tmp_path))) as database:
        database.execute("CREATE TABLE run (name TEXT)")
        database.execute("CREATE INDEX by_name ON run (name)")
        database.executemany("INSERT INTO run VALUES (?)", [(f"run {n} " * 20,) for n in range(500)])
        database.commit()
    return tmp_path


def test_a_whole_database_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a whole database or none is refused, or a file that no server will open."""
    check_database(home)
    get_database_path(home).write_bytes(b"junk")
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "postgresql+asyncpg://host/name")
    check_database(home)
    monkeypatch.undo()
    get_database_path(home).unlink()
    check_database(home)


@pytest.mark.parametrize("harm", ["junk", "middle"])
def test_a_damaged_database_is_said(home: Path, harm: str) -> None:
    """Fails if a server is started on a database that is damaged anywhere."""
    path = get_database_path(home)
    data = bytearray(path.read_bytes())
    if harm == "junk":
        data[:] = b"junk" * 5000
    else:
        data[len(data) // 4 : -len(data) // 4] = b"\xff" * (len(data) // 2)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"prefect\.db is damaged, .*move the folder .* away, and the next run makes"):
        check_database(home)


def test_a_locked_database_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run waits for ever for who has the database for itself."""
    monkeypatch.setattr(module, "LOCKED_SECONDS", 0.1)
    with closing(sqlite3.connect(get_database_path(home), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(
            InputError, match=r"or locked by another process .*If `fuser .*` names a process.*CLOZE_HOME"
        ):
            check_database(home)
    check_database(home)


def test_a_database_of_a_newer_prefect_is_said(home: Path) -> None:
    """An older Prefect cannot use tables that a newer one changed: fails if a server is started on them."""
    with closing(sqlite3.connect(get_database_path(home))) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES (?)", (script_of_prefect().get_current_head(),))
    check_database(home)
    with closing(sqlite3.connect(get_database_path(home))) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'f00df00df00d'")
    with pytest.raises(InputError, match=r"by a newer Prefect than .* revision f00df00df00d.* move the folder .* away"):
        check_database(home)


def script_of_prefect() -> ScriptDirectory:
    """Return the steps of the installed Prefect's tables, as Alembic reads them."""
    import prefect.server.database as package

    steps = Path(package.__path__[0], "_migrations")
    return ScriptDirectory(str(steps), version_locations=[str(steps / "versions" / "sqlite")])


def test_a_database_that_is_mostly_free_becomes_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the file stays as large as it ever was, or is written anew for little, or anything is lost."""
    monkeypatch.setattr(module, "SHRINK_BYTES", 1_000_000)
    for name in USER_DATABASE_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    path, told = get_database_path(tmp_path), list[str]()
    shrink_database(tmp_path, told.append)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = WAL")  # as the server has it
        database.execute("CREATE TABLE history (text)")
        database.executemany("INSERT INTO history VALUES (?)", [("x" * 10_000,)] * 300)
    shrink_database(tmp_path, told.append)
    assert told == [] and path.stat().st_size > 3_000_000
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM history WHERE rowid > 10")
    with closing(sqlite3.connect(path)) as held:  # as by a server that has nothing to do
        held.execute("SELECT count(*) FROM history").fetchone()
        size = path.stat().st_size
        shrink_database(tmp_path, told.append)
        assert told == [] and path.stat().st_size == size
    shrink_database(tmp_path, told.append)
    assert len(told) == 1 and path.stat().st_size < 200_000
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("SELECT count(*) FROM history").fetchone() == (10,)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["is damaged, or", "was written by a newer Prefect than"])
def test_every_command_says_so_in_a_paragraph(tmp_path: Path, fault: str) -> None:
    """Fails if a command starts a server on such a database, or does not end with a paragraph that has a remedy."""
    home, world = new_home(tmp_path), fill(new_world(tmp_path / "world"))
    path = get_database_path(home / "prefect")
    if fault.startswith("is damaged"):
        path.write_bytes(b"junk" * 5000)
    else:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE alembic_version (version_num TEXT)")
            database.execute("INSERT INTO alembic_version VALUES ('f00df00df00d')")
    recipe = str(world.recipe_path)
    for command in (["serve", recipe, "--every", "60", "--port", "65123"], ["ui", "--port", "65123"]):
        done = cloze(home, *command)
        assert done.returncode == 2 and "Traceback" not in done.stdout
        said = done.stdout.splitlines()[-1]
        assert said.startswith(f"cloze: The orchestrator's database {path} {fault}")
    done = cloze(home, "doctor")
    assert done.returncode == 1 and fault in done.stdout and "-> " in done.stdout
    done = cloze(home, "run", recipe, "--own-server", "--watch")
    assert done.returncode == 0 and fault in done.stdout and "The run continues without one" in done.stdout
    path.parent.rename(tmp_path / "away")
    done = cloze(home, "doctor")
    assert fault not in done.stdout and "none yet" in done.stdout
