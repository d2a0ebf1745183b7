"""Stores of any size, and runs that report stage by stage their cost: CPU seconds, rows read, bytes unpacked.

The text: paragraphs of novels (the .txt files of a folder, where one is given) and of the documentation of the Python
standard library, in an order drawn for every document by a seeded generator, so that a paragraph is in several
documents; each ends with a sentence of invented names, so that rare words keep coming as the text grows. Of the
documents 2 % are exact copies of an earlier one, and 3 % have only its last sentence changed. The same size is the
same text.

Reads are counted where Arrow files are opened: the rows of every record batch that is taken from a file, and the
bytes of memory that taking it needed. A batch that is only mapped into memory needs none.
"""

import hashlib
import itertools
import json
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measuring import load_texts
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage, read_manifest
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import run_recipe

RECIPE = """
name = "texts"
store = "store"

[[source]]
kind = "files"
name = "texts"
path = "texts"

[vocabulary]
size = 8000

[shards]
input = "segment-pair"
masking = { kind = "static", unit = "whole-word" }
"""
EXACT_COPIES, NEAR_COPIES, LOOKED_BACK = 0.02, 0.03, 1_000  # shares of all documents; how far back a copy's original is
FILE_BYTES = 100_000  # of text: small, so that a corpus can be cut into many parts
SYLLABLES = [f"{first}{vowel}{last}" for first in "bdfgklmnprstv" for vowel in "aeiou" for last in ("", "l", "n", "r")]


# Text.


def write_texts(folder: Path, megabytes: float, books: Path | None = None) -> None:
    """Write documents of about 3 KB as files of JSON lines, until they come to so many megabytes of text."""
    texts, written = _documents(books), 0
    folder.mkdir()
    for number in itertools.count():
        lines: list[str] = []
        size = 0
        while size < FILE_BYTES and written + size < megabytes * 1e6:
            text = next(texts)
            lines.append(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            size += len(text)
        if not lines:
            return
        (folder / f"{number:06d}.jsonl").write_text("".join(lines), encoding="utf-8")
        written += size


def _documents(books: Path | None) -> Iterator[str]:
    """Yield documents without end: of novels three in four where there are books, a copy one in twenty."""
    pools, draw = [_paragraphs(None), *([_paragraphs(books)] * 3 if books else [])], random.Random(0)
    earlier: list[list[str]] = []
    while True:
        kind = draw.random()
        if kind < EXACT_COPIES + NEAR_COPIES and earlier:
            pieces = draw.choice(earlier)
            pieces = pieces if kind < EXACT_COPIES else [*pieces[:-1], _of_names(draw)]
        else:
            pieces = [*draw.sample(draw.choice(pools), draw.randrange(6, 25)), _of_names(draw)]
            earlier = [*earlier[-LOOKED_BACK:], pieces]
        yield "\n\n".join(pieces)


@cache
def _paragraphs(books: Path | None) -> list[str]:
    """Return every paragraph of prose once; of the documentation, in ASCII, where there are no books."""
    pieces = (re.sub(r"\s+", " ", piece) for text in load_texts(books, 100) for piece in re.split(r"\n\s*\n", text))
    return sorted(
        {piece for piece in pieces if 60 < len(piece) < 800 and (books or (piece.isascii() and piece[-1] == "."))}
    )


def _of_names(draw: random.Random) -> str:
    who, where = ("".join(draw.choices(SYLLABLES, k=draw.randrange(2, 5))).capitalize() for _ in range(2))
    return f"This was written by {who} at {where}, on page {draw.randrange(1_000)} of the notes of that year."


# What is read.


@dataclass(kw_only=True)
class Cost:
    """CPU seconds of all threads; rows of the record batches taken from files; bytes of memory that these needed; files
    opened for them."""

    seconds: float = 0.0
    rows: int = 0
    unpacked: int = 0
    opened: int = 0

    def minus(self, earlier: "Cost") -> "Cost":
        """Return the cost since an earlier reading of the same meters."""
        pairs = ((name, getattr(self, name) - getattr(earlier, name)) for name in asdict(self))
        return Cost(**dict(pairs))

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum of both."""
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in asdict(self)})


class _CountedReader:
    """An Arrow file that counts what is taken from it."""

    def __init__(self, reader: Any, taken: Cost) -> None:
        self._reader = reader
        self._taken = taken

    def __enter__(self) -> "_CountedReader":
        self._reader.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._reader.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def get_batch(self, index: int) -> pa.RecordBatch:
        pool = pa.default_memory_pool()
        before = pool.total_bytes_allocated()
        batch = self._reader.get_batch(index)
        self._taken.rows += batch.num_rows
        self._taken.unpacked += pool.total_bytes_allocated() - before
        return batch


class Meters:
    """The cost since the meters were switched on."""

    def __init__(self) -> None:
        self.taken = Cost()

    def read(self) -> Cost:
        """Return the cost so far."""
        return replace(self.taken, seconds=time.process_time())


@contextmanager
def metered() -> Iterator[Meters]:
    """Count what is read from Arrow files in this process."""
    meters, plain = Meters(), pa.ipc.open_file

    def counted(*arguments: Any, **named: Any) -> _CountedReader:
        meters.taken.opened += 1
        return _CountedReader(plain(*arguments, **named), meters.taken)

    pa.ipc.open_file = counted
    try:
        yield meters
    finally:
        pa.ipc.open_file = plain


# Runs and stores.


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedRun:
    """A run: the cost of each kind of stage, planning included, and every manifest by its kind."""

    costs: Mapping[str, Cost]
    manifests: Mapping[str, Manifest]


FIXED = "fixed work"


def fixed_work() -> float:
    """Return the CPU seconds of some work that no change of ours makes faster: load moves them as it moves a run's."""
    start, data, total = time.process_time(), bytes(1 << 20), 0
    for _ in range(30):
        total += hashlib.sha256(data).digest()[0]
    total += sum(number & 3 for number in range(2_000_000))
    np.arange(4_000_000)[::-1].copy().sort()
    return time.process_time() - start


class _Enough(Exception):
    """Raised when the last requested stage is built."""


def run_metered(recipe: Recipe, lock: Lock, place: Place, until: str = "") -> SizedRun:
    """Build in this process what a store lacks; up to a kind of stage, where one is named.

    The costs have the fixed work as well, the mean of before and after.
    """
    costs: dict[str, Cost] = {}
    manifests: dict[str, Manifest] = {}
    fixed = fixed_work()
    with metered() as meters:
        last = meters.read()

        def build(stage: Stage) -> Manifest:
            nonlocal last
            manifest = manifests[stage.kind] = build_stage(place, stage)
            now = meters.read()
            costs[stage.kind] = costs.get(stage.kind, Cost()).plus(now.minus(last))
            last = now
            return manifest

        def perform(stages: Sequence[Stage]) -> list[Manifest]:
            built = list(map(build, stages))
            if any(stage.kind == until for stage in stages):
                raise _Enough
            return built

        try:
            run_recipe(place, recipe, lock, perform)
        except _Enough:
            pass
    costs[FIXED] = Cost(seconds=(fixed + fixed_work()) / 2)
    return SizedRun(costs=costs, manifests=manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedStore:
    """A text of some megabytes, its recipe and lock, the store of its run, and the cost of that run."""

    megabytes: float
    recipe: Recipe
    lock: Lock
    place: Place
    run: SizedRun

    def with_settings(self, **overrides: str) -> Recipe:
        """Return the recipe with other settings; `__` is the dot of a key."""
        assert self.recipe.path is not None
        named = {key.replace("__", "."): value for key, value in overrides.items()}
        return parse_recipe(self.recipe.text, self.recipe.path, named)


def sized_store(home: Path, megabytes: float, books: Path | None = None) -> SizedStore:
    """Return the store of one size: built, or left in the folder by an earlier call."""
    folder = home / f"{megabytes:g}-megabytes"
    folder.mkdir(parents=True, exist_ok=True)
    recipe = parse_recipe(RECIPE, folder / "texts.toml", {})
    if not (folder / "texts").exists():
        write_texts(folder / "texts", megabytes, books)
    lock, place, costs = resolve(recipe, Lock(), StatCache()).lock, Place(recipe.store), folder / "costs.json"
    if costs.exists():
        data = json.loads(costs.read_bytes())
        manifests = {kind: read_manifest(place, where) for kind, where in data["folders"].items()}
        stored = {kind: manifest for kind, manifest in manifests.items() if manifest is not None}
        run = SizedRun(costs={kind: Cost(**cost) for kind, cost in data["costs"].items()}, manifests=stored)
        return SizedStore(megabytes=megabytes, recipe=recipe, lock=lock, place=place, run=run)
    run = run_metered(recipe, lock, place)
    folders = {kind: manifest.folder for kind, manifest in run.manifests.items()}
    data = {"costs": {kind: asdict(cost) for kind, cost in run.costs.items()}, "folders": folders}
    costs.write_text(json.dumps(data), encoding="utf-8")
    return SizedStore(megabytes=megabytes, recipe=recipe, lock=lock, place=place, run=run)
