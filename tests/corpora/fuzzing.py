"""Fuzzing of every parser: damaged inputs made from small whole ones, and what must hold whatever comes.

A source may drop records and may refuse a file with one paragraph, an InputError. It may not raise anything else, take
long or much memory, count its records wrongly, write or connect anywhere, put into a text what is in another file,
yield what the next stage cannot take or cannot find again, or end the process. The short form runs with the tests;
the long one, ten minutes a parser, each in a process of its own that a crash or a hang may end:

    PYTHONPATH=.:tests/corpora .venv/bin/python tests/corpora/fuzzing.py --minutes 10 [PARSER ...]

What it finds is made small and written to `cases/fuzz/PARSER/`; every file there is a test.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from corpora.errors import InputError
from corpora.schema import LOCATOR
from corpora.sources.contract import RawFile, Record, Source, Tally

CASES = Path(__file__).with_name("cases") / "fuzz"
CPU_SECONDS = 60.0  # for one small input, which takes a thousandth of it: how costs grow is measured by `growth.py`
HANGS_SECONDS = 90.0  # after which the long form ends a process that is still at the same input
MEGABYTES = 500  # that reading one small input may add to the process
LONGEST = 200_000  # bytes of an input
SHRINK_SECONDS = 15.0
SECRET = "root:x:0:0:"  # is in /etc/passwd, which inputs name
# fmt: off
NUMBERS = (b"0", b"-1", b"9" * 5_000, b"2147483648", b"4294967295", b"9223372036854775808", b"1e999", b"0" * 70, b"00",
           b"77777777777", "١٢".encode(), "²".encode())
# fmt: on
LEXEMES = re.compile(rb"<[^<>\n]{0,300}>|[\w'.]+|\s+|\{\{|\}\}|\[\[|\]\]|.", re.DOTALL)
DIGITS = re.compile(rb"\d+")


def same(data: bytes) -> bytes:
    """The bytes as they are."""
    return data


@dataclass(frozen=True)
class Whole:
    """An input without fault; `pack` makes a file of what is in it, so that what is packed can be damaged too."""

    data: bytes
    pack: Callable[[bytes], bytes] = same


@dataclass(frozen=True)
class Target:
    """A parser: whole inputs to damage, what its format is made of, and how it is read: the number of texts."""

    inputs: tuple[Whole, ...]
    tokens: tuple[bytes, ...]
    read: Callable[[bytes, Path], int]


# What must hold.


def read_all(source: Source, data: bytes, files: list[tuple[str, Path]]) -> int:
    """Read the files of a source; says how many records became texts."""
    texts = 0
    for name, where in files:
        digest = hashlib.sha256(data).hexdigest()
        file = RawFile(name=name, sha256=digest, size_bytes=where.stat().st_size, path=str(where))
        tally, records = Tally(), 0
        for piece in source.slices(file):
            for record in source.records(piece, tally):
                check(record)
                if record.drop is None and texts < 3:
                    again = source.raw_record(where, record.locator)
                    assert len(again) == record.locator.length, "a record is not found again"
                records += 1
                texts += record.drop is None
        assert tally.records == records, f"{tally.records} records were counted and {records} given"
    return texts


def check(record: Record) -> None:
    """Check what holds for every record, dropped or not: columns that the next stage can take."""
    texts = [record.text, record.key, record.title, record.url, record.date, record.license, record.group, record.meta]
    pa.array([*texts, *(record.drop or ())[:2]], pa.large_string()).validate(full=True)
    pa.array([{name: getattr(record.locator, name) for name in LOCATOR.names}], LOCATOR)
    assert isinstance(record.raw, bytes)
    assert record.drop is not None or record.text.strip(), "an empty text without a drop"
    assert record.meta is None or isinstance(json.loads(record.meta), dict)
    assert record.revision is None or abs(record.revision) < 1 << 63
    assert not any(SECRET in text for text in texts if text), "a text from another file"


@cache
def warm_up(target: Target) -> None:
    """Read the whole inputs once, so that kernels which are compiled meanwhile are not held against one of them."""
    for whole in target.inputs:
        with tempfile.TemporaryDirectory(prefix="cloze-fuzz-") as folder:
            target.read(whole.pack(whole.data), Path(folder))


def try_input(target: Target, data: bytes) -> int:
    """Read one input; how many texts it gave. Raises whatever is a fault of ours."""
    with tempfile.TemporaryDirectory(prefix="cloze-fuzz-") as folder:
        begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with watched(folder):
            try:
                texts = target.read(data, Path(folder))
            except InputError as error:
                texts = 0
                assert str(error).strip() and "\n\n" not in str(error), "not one paragraph"
                str(error).encode()
        spent = time.process_time() - begun
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert spent < CPU_SECONDS, f"{len(data)} bytes took {spent:.0f} s"
    assert grown < MEGABYTES, f"{len(data)} bytes took {grown:.0f} MB"
    return texts


_watching: list[tuple[str, list[str]]] = []  # the folder in which all is allowed, and what was done elsewhere
_OURS = re.compile(r"\.(pyc|nbi|nbc)\b")  # what is compiled while we read


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, int) or not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            return
        done = f"{event} {path}"
    elif event.startswith(("socket.", "subprocess.")) or event in ("os.system", "os.rename", "os.remove", "os.mkdir"):
        done = f"{event} {arguments}"
    else:
        return
    allowed, seen = _watching[-1]
    if not (_OURS.search(done) or str(arguments[0]).startswith(allowed)):
        seen.append(done)


sys.addaudithook(_audit)


@contextlib.contextmanager
def watched(folder: str) -> Iterator[None]:
    """Fails if what is read inside writes outside a folder, starts a process or asks the network."""
    done: list[str] = []
    _watching.append((folder, done))
    try:
        yield
    finally:
        _watching.pop()
    assert not done, f"reading did {done[:3]}"


# Damage.


def damaged(random: Random, whole: Whole, tokens: tuple[bytes, ...]) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Bytes with a few places damaged, and what makes them a file: half of what is packed is damaged inside."""
    inside = random.random() < 0.6
    data, pack = (whole.data, whole.pack) if inside else (whole.pack(whole.data), same)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        data = random.choice(_DAMAGE)(random, data, tokens)
    return data[:LONGEST], pack


def _put_in(random: Random, data: bytes, tokens: tuple[bytes, ...]) -> bytes:
    at = random.randint(0, len(data))
    what = random.choice(tokens) * random.choice((1, 1, 1, 2, 50, 2_000, 30_000))
    return data[:at] + what[: LONGEST // 2] + data[at:]


def _put_around(random: Random, data: bytes, tokens: tuple[bytes, ...]) -> bytes:
    """One token many times before a place and another as often after it: what nests."""
    first, second = sorted(random.randint(0, len(data)) for _ in range(2))
    times, (before, behind) = random.choice((1, 3, 100, 3_000)), random.choices(tokens, k=2)
    return data[:first] + before * times + data[first:second] + behind * times + data[second:]


def _bytes(random: Random, data: bytes, tokens: tuple[bytes, ...]) -> bytes:
    at, much = random.randint(0, len(data)), random.choice((1, 1, 2, 4, 8, 64, 512))
    what = random.randrange(6)
    if what == 0:
        return data[:at] + data[at + much :]
    if what == 1:
        return data[:at] + data[at : at + much] * 3 + data[at + much :]
    if what == 2:
        return data[:at]
    if what == 3:
        return data[:at] + random.randbytes(much) + data[at + much :]
    if what == 4:
        value = random.choice((0, 1, (1 << 8 * min(much, 8)) - 1, 1 << (8 * min(much, 8) - 1)))
        edge = value.to_bytes(min(much, 8), random.choice(("little", "big")))
        return data[:at] + edge + data[at + len(edge) :]
    turned = bytes([data[at] ^ 1 << random.randrange(8)]) if at < len(data) else b""
    return data[:at] + turned + data[at + 1 :]


def _lexemes(random: Random, data: bytes, tokens: tuple[bytes, ...]) -> bytes:
    """Tags, words and signs left out, doubled, exchanged, moved."""
    parts = LEXEMES.findall(data[:LONGEST])
    if len(parts) < 3:
        return data
    first = random.randrange(len(parts))
    stop = min(len(parts), first + random.choice((1, 1, 1, 3, 10, 100)))
    other, what = random.randrange(len(parts)), random.randrange(5)
    if what == 0:
        del parts[first:stop]
    elif what == 1:
        parts[first:stop] = parts[first:stop] * random.choice((2, 2, 10, 1_000))
    elif what == 2:
        parts[first], parts[other] = parts[other], parts[first]
    elif what == 3:
        parts[other:other] = parts[first:stop]
    else:
        parts[first] = random.choice(tokens)
    return b"".join(parts)


def _number(random: Random, data: bytes, tokens: tuple[bytes, ...]) -> bytes:
    found = list(DIGITS.finditer(data))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + random.choice(NUMBERS) + data[match.end() :]


_DAMAGE = (_put_in, _put_in, _put_around, _bytes, _bytes, _bytes, _lexemes, _lexemes, _lexemes, _number)


# Trying.


@dataclass(frozen=True)
class Finding:
    """A fault, by where it was raised, and the input that shows it."""

    where: str
    error: BaseException
    data: bytes


def attempt(target: Target, data: bytes) -> Finding | None:
    """Try one input; what is wrong."""
    try:
        try_input(target, data)
    except BaseException as error:  # whatever a parser raises is what is looked for
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/.venv/" not in frame.filename]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        if isinstance(error, (RecursionError, AssertionError)):
            where = frames[-1].name if frames else "?"
        return Finding(f"{type(error).__name__} at {where}", error, data)
    return None


def inputs_of(target: Target, number: int) -> Iterator[tuple[bytes, Callable[[bytes], bytes]]]:
    """Damaged inputs without end, the same for the same number."""
    random = Random(number)
    while True:
        yield damaged(random, random.choice(target.inputs), target.tokens)


def shrunk(target: Target, finding: Finding, data: bytes, pack: Callable[[bytes], bytes]) -> Finding:
    """A small input with the same fault: pieces are left out as long as it shows."""
    end, size = time.monotonic() + SHRINK_SECONDS, max(1, len(data) // 2)
    while time.monotonic() < end:
        at, before = 0, len(data)
        while at < len(data) and time.monotonic() < end:
            less = data[:at] + data[at + size :]
            found = attempt(target, pack(less))
            if found is not None and found.where == finding.where:
                data, finding = less, found
            else:
                at += size
        if size == 1 and len(data) == before:
            break
        size = max(1, size // 2)
    return finding


def fuzz(target: Target, inputs: int, number: int) -> None:
    """Try so many damaged inputs. Raises what the first that fails shows."""
    warm_up(target)
    for _, (data, pack) in zip(range(inputs), inputs_of(target, number), strict=False):
        finding = attempt(target, pack(data))
        if finding is not None:
            finding = shrunk(target, finding, data, pack)
            raise AssertionError(f"{finding.where}, with {finding.data[:2_000]!r}") from finding.error


def keep(name: str, data: bytes, cases: Path) -> Path:
    """Write an input among the cases."""
    path = cases / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# The long form.


def fuzz_here(name: str, target: Target, seconds: float, number: int, current: Path, cases: Path) -> int:
    """Fuzz one parser; each input is written before it is tried. How many faults of different kinds there are."""
    end, found, tried = time.monotonic() + seconds, set[str](), 0
    for data, pack in inputs_of(target, number):
        if time.monotonic() >= end:
            break
        file = pack(data)
        current.write_bytes(file)
        tried += 1
        finding = attempt(target, file)
        if finding is not None and finding.where not in found:
            found.add(finding.where)
            finding = shrunk(target, finding, data, pack)
            print(f"{name}: {finding.where}: {str(finding.error)[:500]}: {keep(name, finding.data, cases)}", flush=True)
            traceback.print_exception(finding.error, limit=-4, chain=False)
    print(f"{name}: {tried} inputs from seed {number}, {len(found)} kinds of fault", flush=True)
    return len(found)


def fuzz_in_child(name: str, minutes: float, number: int, cases: Path) -> int:
    """Fuzz one parser in a process of its own, and in another if it crashes or hangs. Returns how many failed."""
    end, faults = time.monotonic() + 60 * minutes, 0
    with tempfile.TemporaryDirectory(prefix="cloze-long-form-") as folder:
        current = Path(folder) / "input"
        while (left := end - time.monotonic()) > 3:
            current.unlink(missing_ok=True)
            options = {"--minutes": left / 60, "--current": current, "--seed": number, "--cases": cases}
            words = [str(word) for pair in options.items() for word in pair]
            child = subprocess.Popen([sys.executable, __file__, name, *words], env={**os.environ, "TMPDIR": folder})
            while child.poll() is None:
                time.sleep(0.5)
                if current.exists() and time.time() - current.stat().st_mtime > HANGS_SECONDS:
                    child.kill()
            faults += child.returncode != 0
            if child.returncode in (0, 1) or not current.exists():
                break
            print(f"{name}: ended by {child.returncode}: {keep(name, current.read_bytes(), cases)}", flush=True)
            number += 1_000
    return faults


def main() -> int:
    """Fuzz the parsers that are named, or all, so many minutes each."""
    targets: dict[str, Target] = importlib.import_module("fuzz_inputs").TARGETS
    parser = argparse.ArgumentParser(description="Fuzz parsers; what is found is kept as a test case.")
    parser.add_argument("parsers", nargs="*", metavar="PARSER", help=f"of {', '.join(targets)}")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=Path, default=CASES, help="where inputs that fail are kept")
    parser.add_argument("--current", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.current is not None:
        (name,) = options.parsers
        seconds, target = 60 * options.minutes, targets[name]
        return min(1, fuzz_here(name, target, seconds, options.seed, options.current, options.cases))
    faults = [fuzz_in_child(name, options.minutes, options.seed, options.cases) for name in options.parsers or targets]
    return min(1, sum(faults))


if __name__ == "__main__":
    sys.exit(main())
