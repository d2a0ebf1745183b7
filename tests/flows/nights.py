"""Nights of a schedule on which bad files come: what they are, what is done about them, what each cell must come to.

nights = Nights(folder, [Cell(fault="cut", new=1, after="deleted")])
nights.come()          the new files of the second night; `nights.act()` does something about the bad ones

Each cell has a source of its own in one recipe, so that one run is the night of all of them.
"""

import gzip
import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from small_recipe import World, new_world, prose
from ugly_folders import docx

from corpora.build import Corpus
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.run.record.run_record import RunRecord, list_run_ids, read_run

HEAD = """
name = "nights"
store = "store"
rules.repetition.enabled = false
language.keep_unknown = true
vocabulary.size = 300
shards.length = 64
"""
BASE = 12  # good files of a source before the first bad one
PAUSE = 0.002  # between two lines of a file that grows


def packed(text: str) -> bytes:
    return gzip.compress((json.dumps({"text": text}) + "\n").encode())


def cut(path: Path, text: str) -> None:
    path.write_bytes(packed(text)[:-20])


def noise(path: Path, text: str) -> None:
    path.write_bytes(text.encode().translate(bytes(reversed(range(256)))))


def password(path: Path, text: str) -> None:
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))  # as Word keeps a document with a password


def growing(path: Path, text: str) -> None:
    path.write_text(text)


def unreadable(path: Path, text: str) -> None:
    """A file without permission; for a user who may read everything, one whose disk fails."""
    path.write_text(text)
    path.chmod(0)
    if os.access(path, os.R_OK):
        path.unlink()
        path.symlink_to("/proc/self/mem")


# What is wrong with a file, by its ending when it is good.
FAULTS: dict[str, tuple[Callable[[Path, str], None], str]] = {
    "cut": (cut, ".jsonl.gz"),
    "noise": (noise, ".docx"),
    "password": (password, ".docx"),
    "growing": (growing, ".txt"),
    "unreadable": (unreadable, ".txt"),
}
GOOD: dict[str, Callable[[str], bytes]] = {".jsonl.gz": packed, ".docx": docx, ".txt": str.encode}
AFTER = ("left", "deleted", "replaced")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A night on which `new` files come, `bad` of them with a fault; and what somebody does about these."""

    fault: str
    new: int
    after: str
    bad: int = 1

    @property
    def name(self) -> str:
        """The name of its source."""
        return f"{self.fault}-{self.new}-{self.bad}-{self.after}"

    @property
    def documents(self) -> int:
        """How many documents its source has in the end: the good files, those that came later, the replaced ones."""
        return BASE + self.new - self.bad + 1 + (self.bad if self.after == "replaced" else 0)


class Nights:
    """A recipe with a source for each cell."""

    def __init__(self, folder: Path, cells: list[Cell]) -> None:
        self.cells, self.acted = cells, False
        self.hears = folder / "heard"
        sources = "".join(
            f'[[source]]\nkind = "files"\nname = "{cell.name}"\npath = "raw/{cell.name}"\n' for cell in cells
        )
        hears = shlex.quote(str(self.hears))
        command = json.dumps(["sh", "-c", f"cat >> {hears}; echo >> {hears}"])
        self.world: World = new_world(folder, f"{HEAD}{sources}[notify]\ncommand = {command}\n")
        for number, cell in enumerate(cells):
            (folder / "raw" / cell.name).mkdir(parents=True)
            for file in range(BASE):
                self._put(cell, f"base-{file}.txt", prose(1_000 * number + file).encode())

    def _put(self, cell: Cell, name: str, data: bytes) -> None:
        (self.world.folder / "raw" / cell.name / name).write_bytes(data)

    def _bad(self, cell: Cell) -> list[Path]:
        return [self.world.folder / "raw" / cell.name / f"bad-{n}{FAULTS[cell.fault][1]}" for n in range(cell.bad)]

    def come(self) -> None:
        """Let the files of the second night come."""
        for number, cell in enumerate(self.cells):
            for file in range(cell.new - cell.bad):
                self._put(cell, f"new-{file}.txt", prose(1_000 * number + 100 + file).encode())
            for file, path in enumerate(self._bad(cell)):
                FAULTS[cell.fault][0](path, prose(1_000 * number + 500 + file))

    def act(self) -> None:
        """Do what each cell says about its bad files; and one more good file comes."""
        self.acted = True
        for number, cell in enumerate(self.cells):
            self._put(cell, "later.txt", prose(1_000 * number + 900).encode())
            for file, path in enumerate(self._bad(cell)):
                if cell.after != "left":
                    path.unlink()
                if cell.after == "replaced":
                    path.write_bytes(GOOD[FAULTS[cell.fault][1]](prose(1_000 * number + 600 + file)))

    @contextmanager
    def written(self) -> Iterator[None]:
        """Have the files that grow written to during the block, except those that are deleted or replaced."""
        over = threading.Event()
        grow = [cell for cell in self.cells if cell.fault == "growing" and not (self.acted and cell.after != "left")]
        paths = [path for cell in grow for path in self._bad(cell) if path.exists()]

        def write() -> None:
            while not over.wait(PAUSE):
                for path in paths:
                    with path.open("a") as file:
                        file.write("And one more line.\n")

        threads = [threading.Thread(target=write, daemon=True) for _ in range(bool(paths))]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def records(self) -> list[RunRecord]:
        """The records of all nights."""
        place = Place(self.world.recipe().store)
        return [read_run(place, run_id) for run_id in list_run_ids(place)]

    def documents(self) -> dict[str, int]:
        """How many documents of each source the last night has."""
        place, counts = Place(self.world.recipe().store), dict[str, int]()
        [folder] = [stage.folder for stage in self.records()[-1].stages if stage.kind == "corpora"][-1:]
        manifest = read_manifest(place, folder)
        assert manifest is not None
        for document in Corpus(place, manifest).iter_documents():
            counts[document.source] = counts.get(document.source, 0) + 1
        return counts

    def notices(self) -> list[dict[str, str]]:
        """What somebody was told, in order."""
        lines = self.hears.read_text().splitlines() if self.hears.exists() else []
        return [json.loads(line) for line in lines if line]

    def check(self) -> None:
        """Check that each night ended well, and what it said: once that something is set aside, and by all doors."""
        bad = sum(cell.bad for cell in self.cells)
        said = [", ".join(record.outcome) for record in self.records()]
        assert said == ["completed", f"completed, {bad} set aside", "completed", "completed"]
        assert [notice["event"] for notice in self.notices()] == ["damage"], self.notices()
        assert self.documents() == {cell.name: cell.documents for cell in self.cells}
