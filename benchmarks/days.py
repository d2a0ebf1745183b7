"""How a run's cost grows with the days before it: 2,000 documents, then a file of 50 new ones each day.

    python -m benchmarks.days --days 12 --home .cloze

Each day is one `cloze run` of the same recipe. A row has what it left: stages that were looked at, task runs, files
written to the store, bytes of the orchestrator's database and of the report, and its CPU seconds, user and system, with
every process that it started. All but the seconds are counts, which no load of the machine changes.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.first_contact import CLOZE, COMMON, PREPARED, made_up, made_up_words
from benchmarks.measuring import cpu_of_children

RECIPE = """
name = "days"
store = "store"
[[source]]
kind = "files"
name = "news"
path = "raw"
[vocabulary]
size = 2000
[shards]
length = 128
"""
HEADS = ("day", "stages", "task runs", "files", "database kB", "report kB", "CPU s")


def main(arguments: Sequence[str]) -> int:
    """Run day after day and print a row for each, then the ratio of the last three days to the first three."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.days", description=__doc__.split("\n\n")[0])
    parser.add_argument("--home", type=Path, required=True, help="a prepared CLOZE_HOME to copy")
    parser.add_argument("--days", type=int, default=12)
    parser.add_argument("--first", type=int, default=2_000, help="documents before the first day")
    parser.add_argument("--each", type=int, default=50, help="documents of a day")
    given = parser.parse_args(arguments)
    draw = random.Random(1)
    words = [*made_up_words(draw, 3_000), *150 * COMMON]
    spent: list[float] = []
    print("  ".join(f"{head:>11}" for head in HEADS))
    with tempfile.TemporaryDirectory(prefix="cloze-days-") as name:
        folder = Path(name)
        for part in PREPARED:
            shutil.copytree(given.home / part, folder / "home" / part)
        (folder / "days.toml").write_text(RECIPE, encoding="utf-8")
        (folder / "raw").mkdir()
        for day in range(given.days + 1):
            texts = [made_up(draw, words, 1_500) for _ in range(given.each if day else given.first)]
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
            (folder / "raw" / f"{day:03}.jsonl").write_text(lines, encoding="utf-8")
            row = run_day(folder)
            spent.append(row[-1])
            print("  ".join(f"{value:>11,.1f}" if value % 1 else f"{int(value):>11,}" for value in (day, *row)))
    early, late = sum(spent[1:4]), sum(spent[-3:])
    print(f"CPU of the last three days: {late / early:.2f} times that of days 1 to 3")
    return 0


def run_day(folder: Path) -> tuple[float, ...]:
    """Run the recipe once; returns the row without its day. Raises CalledProcessError."""
    environment = {**os.environ, "CLOZE_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).parents[1])}
    before, counted, cpu = files_of(folder / "store"), rows_in(folder), cpu_of_children()
    subprocess.run([*CLOZE, "run", "days.toml"], cwd=folder, env=environment, check=True, capture_output=True)
    spent, after = cpu_of_children() - cpu, files_of(folder / "store")
    [report] = (path for path in after if path.name == "report.html" and path not in before)
    record = json.loads((report.parent / "run.json").read_bytes())
    now = rows_in(folder)
    return (
        len(record["stages"]),
        now["tasks"] - counted["tasks"],
        len(after.keys() - before.keys()),
        (now["bytes"] - counted["bytes"]) / 1000,
        after[report] / 1000,
        spent,
    )


def files_of(folder: Path) -> dict[Path, int]:
    """Return the files below a folder, with their sizes."""
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def rows_in(folder: Path) -> Mapping[str, int]:
    """Return the task runs that the orchestrator's database has, and its bytes."""
    path = folder / "home" / "prefect" / "prefect.db"
    with closing(sqlite3.connect(path, timeout=10)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [tasks] = database.execute("SELECT count(*) FROM task_run").fetchone()
        [pages], [free] = (database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count"))
        return {"tasks": tasks, "bytes": (pages - free) * 4096}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
