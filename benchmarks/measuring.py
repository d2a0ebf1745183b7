"""Measuring side by side: CPU time of calls that take turns, the table it makes, and text to work on.

Promise: the sides are called in turns in one process, so whatever else the machine does slows all of them
equally, and every call gets a new number, so that no side can learn its random choices by
heart. A figure is the median over the rounds of CPU seconds, user and system, of all threads, and of the
processes that a call starts and waits for; a call too short for the clock is repeated until it is not. Memory
that a side takes from the system is part of its cost.

Trust the ratios to some 15 %; the seconds vary with the machine and its other users.
"""

import argparse
import gc
import itertools
import math
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Before anything imports tokenizers, which reads it once: it would spread over all cores, and one is measured.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pyarrow as pa

from benchmarks.record import Others, call_of, put_on_record
from corpora.errors import InputError
from corpora.judging.steps.clean import CleanSettings, clean
from corpora.sources.contract import StatCache, Tally, hash_files
from corpora.sources.python_docs import STANDARD_LIBRARY, PythonDocsSource

LEAST_SECONDS = 0.05  # of CPU in one measurement: a call that takes less is repeated
DOCUMENT_CHARACTERS = 3_000


# Measuring.


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to do the work. `call` gets a fresh number each time, for sides that need a seed."""

    name: str
    call: Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """CPU seconds of one call of a side, round by round."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that is shown."""
        return statistics.median(self.seconds)


def take_turns(sides: Sequence[Side], rounds: int) -> tuple[Row, ...]:
    """Call every side once a round, one after another.

    Each should have been called before, as the check of its output does: the first call of a kernel in a
    process loads its machine code, or compiles it.
    """
    numbers = itertools.count(1)
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            seconds[side.name].append(cpu_seconds(side.call, numbers))
    return tuple(Row(name=name, seconds=tuple(measured)) for name, measured in seconds.items())


def cpu_seconds(call: Callable[[int], object], numbers: Iterator[int]) -> float:
    """Return CPU seconds of one call, the mean of as many as `LEAST_SECONDS` hold."""
    gc.collect()
    calls, spent, start = 0, 0.0, _cpu_clock()
    while spent < LEAST_SECONDS:
        call(next(numbers))
        calls += 1
        spent = _cpu_clock() - start
    return spent / calls


def _cpu_clock() -> float:
    """Return CPU seconds of this process and of those that it has started and waited for."""
    return time.process_time() + cpu_of_children()


def cpu_of_children() -> float:
    """Return CPU seconds of all processes that this one started and waited for, and of theirs."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


# Showing.


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a comparison.

    amounts: what one call of any side works through, by unit ("MB", "examples", ...)
    rows:    the first is the baseline of the others
    notes:   what is equal, and what differs
    """

    title: str
    amounts: Mapping[str, float]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the report as text: for each side CPU seconds, speeds, and its CPU time relative to the first's."""
        width = max(len(row.name) for row in self.rows)
        units = [f"{unit}/CPU s" for unit in self.amounts]
        widths = [max(len(unit), 8) for unit in units]
        heads = "  ".join(f"{unit:>{size}}" for unit, size in zip(units, widths, strict=True))
        yield self.title
        yield f"  {'':{width}}  {'CPU s':>8}  {'from':>8}  {'to':>8}  {heads}  {'times':>8}"
        for row in self.rows:
            spread = (row.median, min(row.seconds), max(row.seconds))
            speeds = (amount / row.median for amount in self.amounts.values())
            figures = [f"{figure(value):>8}" for value in spread]
            figures += [f"{figure(speed):>{size}}" for speed, size in zip(speeds, widths, strict=True)]
            figures.append(f"{figure(row.median / self.rows[0].median):>8}")
            yield f"  {row.name:{width}}  {'  '.join(figures)}"
        yield from (f"  - {note}" for note in self.notes)

    def to_json(self) -> dict[str, object]:
        """Return the report as the record keeps it: speeds in the first unit, and times of the first side's time."""
        unit, amount = next(iter(self.amounts.items()))
        first = self.rows[0].median
        rows = [
            {
                "name": row.name.strip(),
                "speed": float(figure(amount / row.median)),
                "times": float(figure(row.median / first)),
            }
            for row in self.rows
        ]
        return {"what": self.title.split(":")[0], "unit": unit, "rows": rows}


def figure(value: float) -> str:
    """Return a number with three significant digits.

    >>> [figure(value) for value in (0.0123456, 1.0, 65.43, 1234.5, 0.0)]
    ['0.0123', '1.00', '65.4', '1234', '0']
    """
    if value == 0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


# Text to work on.


def load_texts(folder: Path | None, megabytes: float) -> list[str]:
    """Return some `megabytes` of text in documents of about 3 KB, spread evenly over the source.

    folder: its .txt files; None: the documentation of the Python standard library, about 1.4 MB
    Raises InputError if the folder has no such file.
    """
    whole = _python_docs() if folder is None else _text_files(folder)
    pieces = [piece for text in whole for piece in cut_text(text)]
    return spread(pieces, megabytes)


def spread(documents: Sequence[str], megabytes: float) -> list[str]:
    """Return every n-th document, so that they come to some `megabytes` or are all there are."""
    share = min(1.0, megabytes / size_mb(documents))
    wanted = max(1, round(len(documents) * share))
    return [documents[number * len(documents) // wanted] for number in range(wanted)]


def cut_text(text: str) -> Iterator[str]:
    """Yield a long text as documents: whole paragraphs, each document closed by the one that makes it long enough."""
    gathered: list[str] = []
    size = 0
    for paragraph in re.split(r"\n\s*\n", text):
        gathered.append(paragraph)
        size += len(paragraph)
        if size >= DOCUMENT_CHARACTERS:
            yield "\n\n".join(gathered)
            gathered, size = [], 0
    if size:
        yield "\n\n".join(gathered)


def _text_files(folder: Path) -> Iterator[str]:
    paths = sorted(folder.rglob("*.txt"))
    if not paths:
        raise InputError(f"{folder} holds no .txt file: give --text a folder that does.")
    for path in paths:
        data = path.read_bytes()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")  # the older texts on the web's shelves of books
        yield text.replace("\r\n", "\n")


def _python_docs() -> Iterator[str]:
    source = PythonDocsSource()
    files = [file for file in source.files() if file[0].startswith(f"{STANDARD_LIBRARY}/")]
    for raw in hash_files(files, StatCache()):
        for piece in source.slices(raw):
            yield from (record.text for record in source.records(piece, Tally()) if record.drop is None)


def text_column(texts: Sequence[str]) -> pa.Array:
    """Return texts as the column that every step takes."""
    return pa.array(texts, pa.large_string())


def cleaned(texts: Sequence[str]) -> list[str]:
    """Return texts as the steps after cleaning get them, without those that have become empty."""
    return [text for text in clean(text_column(texts), CleanSettings()).to_pylist() if text]


def size_mb(texts: Sequence[str]) -> float:
    """Return MB (10^6 bytes) of UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def described(what: str, texts: Sequence[str], rounds: int) -> str:
    """Return the title of a report.

    >>> described("rules", ["some text"] * 1000, 5)
    'rules: 0.00900 MB in 1000 documents, medians of 5 rounds'
    """
    return f"{what}: {figure(size_mb(texts))} MB in {len(texts)} documents, medians of {rounds} rounds"


def side_by_side(
    what: str,
    texts: Sequence[str],
    sides: Sequence[Side],
    rounds: int,
    notes: Sequence[str],
    amounts: Mapping[str, float] | None = None,
) -> Report:
    """Measure all sides on texts. amounts: what a call works through, where that is not just the texts' MB"""
    return Report(
        title=described(what, texts, rounds),
        amounts=amounts or {"MB": size_mb(texts)},
        rows=take_turns(sides, rounds),
        notes=tuple(notes),
    )


# The command line of a benchmark.

Benchmark = Callable[[Sequence[str], int], Sequence[Report]]
Load = Callable[[Path | None, float], list[str]]


def main(benchmark: Benchmark, load: Load = load_texts) -> None:
    """Run one benchmark as its arguments say; ends with exit code 2 where they are wrong."""
    program = f"python -m benchmarks.{Path(sys.argv[0]).stem}"
    story = (sys.modules[benchmark.__module__].__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog=program, description=story)
    parser.add_argument("--text", type=Path, help="what to read, in place of what any machine has")
    parser.add_argument("--megabytes", type=float, default=2.0, help="how much of it (default: 2)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each side (default: 5)")
    parser.add_argument("--record", action="store_true", help="put the call on record (`benchmarks.figures`)")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.megabytes <= 0:
        parser.error("--rounds and --megabytes must be above 0")
    others = Others.now()
    try:
        reports = benchmark(load(arguments.text, arguments.megabytes), arguments.rounds)
    except InputError as error:
        parser.error(str(error))
    print("\n\n".join("\n".join(report.lines()) for report in reports))
    if arguments.record:
        text = arguments.text.name if arguments.text else "what any machine has"
        facts = {"benchmark": Path(sys.argv[0]).stem, "text": text, "megabytes": arguments.megabytes}
        put_on_record(call_of(others, **facts, reports=[report.to_json() for report in reports]))
