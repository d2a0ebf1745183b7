"""What many runs with nothing new leave: bytes in the store and in the orchestrator's database, and time to list them.

    python -m benchmarks.old_runs --runs 100

A folder of notes is run once and then again so many times, each run a process of its own, in a store and a home that go
afterwards. The runs on record are listed (`cloze runs --limit 0`), a server takes them into its database, and the
records of all but ten go (`cloze gc --keep-runs 10`). Then the history is made two months old: a server deletes it, and
the database gives back its room, but not as long as the server has it open. Every run has to be on record.

About three minutes for 100 runs on two idle cores, half of it the runs.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from corpora.kernels.compiling import kernel_folder
from flows.orchestration import database as databases
from flows.orchestration.journal import kept

NOTES = 40
PATIENCE = 600.0
# A server looks for what is too old as soon as it starts.
DELETING = {"PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "60"}
TABLES = ("flow_run", "task_run", "artifact", "log", "events")


def main(arguments: list[str] | None = None) -> None:
    """Run, take, list, delete, and print what each comes to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.old_runs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="with nothing new; default: 100")
    number = parser.parse_args(arguments).runs
    with tempfile.TemporaryDirectory(prefix="cloze-old-runs-") as scratch:
        measure(Path(scratch), number)


def measure(folder: Path, number: int) -> None:
    """All of it, in a folder."""
    home, store = new_world(folder)
    seconds = cloze(home, "run", "notes.toml")
    print(f"the first run: {seconds:.1f} CPU s; store {in_kb(store)}, of records {in_kb(store / 'runs')}", flush=True)
    before = size_of(store / "runs")
    times = [cloze(home, "run", "notes.toml") for _ in range(number)]
    each = (size_of(store / "runs") - before) / number
    print(f"{number} runs with nothing new: {sum(times) / number:.2f} CPU s and {each / 1e3:.1f} kB of the store each")
    print(f"  the store then: {in_kb(store)}, of records {in_kb(store / 'runs')}", flush=True)
    show_list(home, number)
    take_all(home)
    show_database("taken into the database", home)
    show_clean_up(home, store)
    show_deletion(home)


def new_world(folder: Path) -> tuple[Path, Path]:
    """A home with the kernels of this one, and a recipe in it over some notes; the home and the store."""
    home = folder / "home"
    raw = home / "raw"
    raw.mkdir(parents=True)
    (home / "prefect").mkdir()
    (home / "kernels").symlink_to(kernel_folder().parent)
    line = "The keeper of house {} carried the stones to the river before the winter and remembered that evening."
    notes = (" ".join(line.format(10 * note + part) for part in range(10)) for note in range(NOTES))
    (raw / "notes.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in notes))
    recipe = 'name = "notes"\nstore = "store"\n\n[[source]]\nkind = "files"\nname = "notes"\npath = "raw"\n'
    (home / "notes.toml").write_text(f"{recipe}\n[rules]\nrepetition.enabled = false\n\n[vocabulary]\nsize = 400\n")
    return home, home / "store"


def environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Of a command of this home."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "CLOZE_HOME": str(home), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).parents[1]), **more}  # fmt: skip


def cloze(home: Path, *arguments: str) -> float:
    """Run a command to its end; its processor seconds. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "flows.launch", *arguments]
    subprocess.run(command, cwd=home, env=environment(home, {}), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_list(home: Path, number: int) -> None:
    """What to list all runs costs."""
    command = [sys.executable, "-m", "flows.launch", "runs", "--limit", "0", "--json"]
    done = subprocess.run(command, cwd=home, env=environment(home, {}), check=True, capture_output=True)
    listed = json.loads(done.stdout)
    assert len(listed) == number + 1, "not every run is on record"
    seconds = cloze(home, "runs", "--limit", "0")
    print(f"  cloze runs --limit 0: {seconds:.2f} CPU s for {len(listed)} runs", flush=True)


@contextmanager
def server(home: Path, more: Mapping[str, str]) -> Iterator[None]:
    """A server with all its services, as of `cloze serve`, for the time of the block."""
    command = [sys.executable, "-m", "flows.orchestration.server", "0", "full"]
    known = environment(home, {"PREFECT_HOME": str(home / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "0", **more})
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=home, env=known, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdout.readline()
            yield
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def take_all(home: Path) -> None:
    """Have a server take every run into its database."""
    waiting = len(kept(home / "prefect"))
    with server(home, {}):
        wait_until(lambda: not kept(home / "prefect"), "the journal is not taken")
    print(f"{waiting} runs that were done without a server", end=" ")


def show_database(what: str, home: Path) -> None:
    """How large the database is, and how many rows it has of what it holds."""
    rows = ", ".join(f"{count_rows(home, table):,} of {table}" for table in TABLES)
    print(f"{what}: {in_kb(home / 'prefect')}, rows: {rows}", flush=True)


def count_rows(home: Path, table: str) -> int:
    """Of a table of the database."""
    with closing(sqlite3.connect(databases.database_of(home / "prefect"), timeout=60)) as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def show_clean_up(home: Path, store: Path) -> None:
    """What a clean-up leaves of the records."""
    seconds = cloze(home, "gc", "store", "--keep-runs", "10", "--delete")
    print(f"cloze gc --keep-runs 10 --delete: {seconds:.2f} CPU s; records {in_kb(store / 'runs')}", flush=True)


def show_deletion(home: Path) -> None:
    """What the server's own service deletes of a history that is too old, and what the file gives back."""
    from flows.orchestration.history import history_settings

    path = databases.database_of(home / "prefect")
    with closing(sqlite3.connect(path)) as database:
        for column in ("start_time", "end_time", "created"):
            database.execute(f"UPDATE flow_run SET {column} = datetime({column}, '-60 days')")
        database.execute("UPDATE events SET occurred = datetime(occurred, '-60 days')")
        database.commit()
    began = time.monotonic()
    with server(home, {**history_settings(30.0), **DELETING}):
        old = "the history is not deleted"
        wait_until(lambda: count_rows(home, "flow_run") == 0 and count_rows(home, "events") < 100, old)
        databases.SHRINK_BYTES = 0
        size = path.stat().st_size
        databases.shrink_database(home / "prefect", print)
        assert path.stat().st_size >= size, "the database was written anew under a server"
    show_database(f"deleted by the server as too old, {time.monotonic() - began:.0f} s after its start", home)
    databases.shrink_database(home / "prefect", print)
    show_database("its room given back, no server being there", home)


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Raises AssertionError where something does not become true."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def size_of(folder: Path) -> int:
    """Of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def in_kb(folder: Path) -> str:
    """The size of a folder for people."""
    return f"{size_of(folder) / 1e3:,.0f} kB"


if __name__ == "__main__":
    main()
