"""How the cost of a whole run grows with the text: the CPU seconds of every stage.

    python -m benchmarks.whole_run --megabytes 30 300 --books FOLDER

The text: paragraphs of novels (the .txt files of a folder, if one is given) and of the documentation of the Python
standard library, in an order drawn for every document by a seeded generator, so that a paragraph is in several
documents; each ends with a sentence of invented names, so that rare words keep coming as the text grows. Of the
documents 2 % are exact copies of an earlier one, and 3 % have only its last sentence changed. The same size is the
same text.

A run is one of an empty store, in this process and without an orchestrator. A figure is of one call, in CPU seconds of
all threads, after a small run that has loaded the kernels; the time of planning a stage is the stage's own.
"""

import argparse
import itertools
import json
import random
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from benchmarks.measuring import figure, load_texts
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe
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
WARM_MEGABYTES = 0.5
EXACT_COPIES, NEAR_COPIES, LOOKED_BACK = 0.02, 0.03, 1_000  # shares of all documents; how far back a copy's original is
FILE_BYTES = 100_000  # of text
SYLLABLES = [f"{first}{vowel}{last}" for first in "bdfgklmnprstv" for vowel in "aeiou" for last in ("", "l", "n", "r")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the CPU seconds of each stage, a column for each size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole_run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--megabytes", nargs="+", type=float, default=[30.0, 300.0], help="sizes of the text")
    parser.add_argument("--books", type=Path, help="novels in .txt files, of which three documents in four are made")
    given = parser.parse_args(arguments)
    measure_run(WARM_MEGABYTES, given.books)
    columns = {megabytes: measure_run(megabytes, given.books) for megabytes in given.megabytes}
    sums = {megabytes: sum(seconds.values()) for megabytes, seconds in columns.items()}
    print_row("CPU seconds", [f"{megabytes:g} MB" for megabytes in columns])
    for kind in next(iter(columns.values())):
        print_row(kind, [figure(seconds[kind]) for seconds in columns.values()])
    print_row("the run", map(figure, sums.values()))
    print_row("MB a CPU second", [figure(megabytes / seconds) for megabytes, seconds in sums.items()])


def print_row(name: str, cells: Iterable[str]) -> None:
    """Print a row of the table."""
    print(f"{name:16}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def measure_run(megabytes: float, books: Path | None) -> dict[str, float]:
    """Return the CPU seconds of each kind of stage of a run that builds all of them."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = parse_recipe(RECIPE, folder / "texts.toml", {})
        write_texts(folder / "texts", megabytes, books)
        lock, place = resolve_raw_files(recipe, Lock(), StatCache()).lock, Place(recipe.store)
        last = time.process_time()

        def build(stage: Stage) -> Manifest:
            nonlocal last
            manifest = build_stage(place, stage)
            now = time.process_time()
            seconds[stage.kind] = seconds.get(stage.kind, 0.0) + now - last
            last = now
            return manifest

        run_recipe(place, recipe, lock, lambda stages: list(map(build, stages)))
    return seconds


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
    """Yield documents without end: of novels three in four if there are books, a copy one in twenty."""
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
    """Return every paragraph of prose once; of the documentation, in ASCII, if there are no books."""
    pieces = (re.sub(r"\s+", " ", piece) for text in load_texts(books, 100) for piece in re.split(r"\n\s*\n", text))
    return sorted(
        {piece for piece in pieces if 60 < len(piece) < 800 and (books or (piece.isascii() and piece[-1] == "."))}
    )


def _of_names(draw: random.Random) -> str:
    who, where = ("".join(draw.choices(SYLLABLES, k=draw.randrange(2, 5))).capitalize() for _ in range(2))
    return f"This was written by {who} at {where}, on page {draw.randrange(1_000)} of the notes of that year."


if __name__ == "__main__":
    main()
