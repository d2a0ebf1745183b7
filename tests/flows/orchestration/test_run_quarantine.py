"""A record that hangs its worker, one that crashes it and a file that is cut off are passed over, and the lock says so.

That holds for a run that somebody watches, as a flow of Prefect, and for one that nobody does.

Source and step are a package of its own, found by its entry points: of each line a record, one that the source reads
for good, and one over which the step ends the process. Over a third the process is stopped, once, which is not the
record's fault. (The short tier has the second alone.) The time limits are settings, so that the test need not wait for
the usual ones.
"""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from launched import Site, ask, cloze, environment, get
from small_recipe import prose
from tiers import LONG

from corpora.schema import iter_dropped
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from corpora.store.tables import read_table
from flows.orchestration.late_runs import FOLDER
from flows.run.record.run_record import list_run_ids, read_run

pytestmark = [pytest.mark.slow, pytest.mark.server]

MODULE = '''
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from corpora.judging.steps.added import Applied
from corpora.schema import Locator
from corpora.sources.contract import Record, slice_whole_file


@dataclass(frozen=True, slots=True, kw_only=True)
class FragileSource:
    """Lines of a file; HANG never comes to an end."""

    kind: ClassVar[str] = "fragile"
    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    name: str
    path: str

    def settings(self):
        return {}

    def files(self):
        return [(Path(self.path).name, Path(self.path))]

    def slices(self, file):
        return [slice_whole_file(file)]

    def records(self, piece, tally):
        at = 0
        for line in Path(piece.file.path).read_text().splitlines():
            tally.records += 1
            locator = Locator(file=piece.file.name, sha256=piece.file.sha256, offset=at, length=len(line))
            drop = tally.enter(locator)
            while drop is None and line == "HANG":
                pass
            killed = Path(self.path).with_name("killed")
            if "KILL" in line and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield Record(locator=locator, text="" if drop else line, raw=line.encode(), drop=drop)
            at += len(line) + 1

    def raw_record(self, file, locator):
        return file.read_bytes()[locator.offset : locator.offset + locator.length]


@dataclass(frozen=True, slots=True, kw_only=True)
class FragileStep:
    """CRASH ends the process, and STOP stops it once."""

    kind: ClassVar[str] = "fragile"
    version: ClassVar[int] = 1

    def apply(self, texts, records):
        for record in records:
            if "CRASH" in record.text:
                os.abort()
            if "STOP" in record.text and not Path("stopped").exists():
                Path("stopped").touch()
                os.kill(os.getpid(), signal.SIGSTOP)
        return Applied(texts, [None] * len(texts))
'''

RECIPE = """
source = [
    { kind = "fragile", name = "lines", path = "lines.txt" },
    { kind = "files", name = "notes", path = "notes", on_damage = "skip" },
]
step = [{ kind = "fragile", after = "clean" }]
workers = { record_cpu_seconds = 3.0, stall_seconds = 5.0 }
rules.repetition.enabled = false
vocabulary.size = 300
"""

ENTRY_POINTS = "[cloze.sources]\nfragile = fragile:FragileSource\n[cloze.steps]\nfragile = fragile:FragileStep\n"


def install(folder: Path) -> None:
    """A package as pip leaves it: a module, and its entry points."""
    info = folder / "fragile-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "fragile.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fragile\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


def newest(place: Place) -> Manifest:
    [manifest] = list_manifests(place, "documents", "lines")
    return manifest


WAYS = {"watched": True, "unwatched": False}


def run(site: Site, watched: bool, recipe: Path) -> "subprocess.CompletedProcess[str]":
    """Run a recipe with the package: under the server of the site, or without any."""
    more = {"PYTHONPATH": f"{environment(site.home)['PYTHONPATH']}:{recipe.parent / 'packages'}"}
    command = ("run", str(recipe), "--workers", "1", "--watch" if watched else "--no-watch")
    return cloze(site.home, *command, api=site.api if watched else None, more=more)


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_worker_costs_a_retry(site: Site, tmp_path: Path, way: str) -> None:
    """Fails if a worker that dies fails the run, loses work, or leaves no trace in the record of its task."""
    install(tmp_path / "packages")
    (tmp_path / "lines.txt").write_text(f"{prose(1)}\n{prose(2)} KILL\n{prose(3)}\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "whole.txt").write_text(prose(4))
    recipe = tmp_path / "killed.toml"
    recipe.write_text(RECIPE)
    done = run(site, WAYS[way], recipe)
    assert done.returncode == 0 and (tmp_path / "killed").exists(), done.stdout
    place = Place(str(tmp_path / "store"))
    [run_id] = list_run_ids(place)
    if WAYS[way]:
        [flow_run] = ask(site.api, "flow_runs", flow_runs={"name": {"like_": "killed "}})
        tasks = ask(site.api, "task_runs", flow_runs={"id": {"any_": [flow_run["id"]]}})
        attempts = {task["name"]: task["run_count"] for task in tasks}
        [again] = [task for task in tasks if task["run_count"] > 1]
        states = get(site.api, f"task_run_states/?task_run_id={again['id']}")
        assert {"AwaitingRetry", "Retrying"} <= {state["name"] for state in states}
    else:
        kept = json.loads((site.home / "prefect" / FOLDER / f"{run_id}.json").read_text())
        attempts = {task["name"]: task["attempts"] for task in kept["tasks"]}
    assert [name for name, number in attempts.items() if number > 1] == ["documents/lines"]
    assert read_run(place, run_id).watched is WAYS[way]
    assert newest(place).ledger.find_account("records").outcomes == {"documents": 3}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_on_without_what_ends_its_workers(site: Site, tmp_path: Path, way: str) -> None:
    """Fails if the run ends, a record is lost without a word or unharmed, or the next run meets it again."""
    install(tmp_path / "packages")
    (site.home / "stopped").unlink(missing_ok=True)  # by which the step knows that it stopped its process
    bad = ["HANG", f"{prose(4)} CRASH"] if LONG else [f"{prose(4)} CRASH"]
    stopped = f"{prose(2)} STOP" if LONG else prose(2)
    lines = [prose(1), *bad[:-1], stopped, bad[-1], prose(3)]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "whole.txt").write_text(prose(4))
    (tmp_path / "notes" / "cut.txt.gz").write_bytes(gzip.compress(prose(5).encode())[:-20])
    recipe = tmp_path / "fragile.toml"
    recipe.write_text(RECIPE)
    done = run(site, WAYS[way], recipe)
    assert done.returncode == 0, done.stdout
    said = done.stdout
    assert said.count("is in quarantine from now on") == len(bad) and "SIGABRT" in said
    if LONG:
        assert "processor time" in said and "hung" in said and "Another one takes its place." in said
    left_out = "notes: left out as unreadable: cut.txt.gz"
    assert left_out in said
    place = Place(str(tmp_path / "store"))
    assert left_out in place.read(f"runs/{list_run_ids(place)[0]}/report.html").decode()
    manifest = newest(place)
    assert manifest.ledger.find_account("records").outcomes == {"documents": 3, "dropped: parse: quarantined": len(bad)}
    offsets = [row.locator.offset for row in iter_dropped(read_table(place, manifest, "dropped"))]
    lock = json.loads((tmp_path / "fragile.lock").read_text())
    assert sorted(int(entry.split(" ")[2]) for entry in lock["quarantine"]) == offsets
    assert offsets == [len("\n".join(lines[: lines.index(line)])) + 1 for line in bad]
    again = run(site, WAYS[way], recipe)
    assert again.returncode == 0 and "in quarantine from now on" not in again.stdout and left_out in again.stdout
    assert newest(place).content == manifest.content
