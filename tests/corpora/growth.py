"""Growth: what reading a text costs where four times as much of it is read, whatever it repeats.

Promise looked after: no input makes a parser or a step take more than `MOST_GROWTH` times the processor time for four
times the bytes. The inputs are made of short tokens by `patterns`, the same way for every subject: each token over and
over, alone and with a word, a space or a line break between; two in turn; one so many times, then another as often,
which nests. They come alone and in the place of the prose of whole files (`frames_of`).

Measured is the processor time of this process; a step that seems to grow too fast is measured again, and the
best of all counts, so other work on the machine fails nothing. The short form runs with the tests; the long one tries
every token of every subject at greater lengths, each subject in a process of its own, which is ended where it stands
still:

    PYTHONPATH=.:tests/corpora .venv/bin/python tests/corpora/growth.py [--minutes 10] [SUBJECT ...]
"""
# ruff: noqa: RUF001 - typographic marks are part of what is read

import argparse
import gc
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from fuzzing import run_in_child

from corpora.errors import InputError

MOST_GROWTH = 8.0  # of processor time, if there is four times as much to read; what is quadratic takes sixteen times
LEAST_SECONDS = 0.1  # of the longer input; below, what is constant says more than what grows
SHORT, LONG = (50_000, 200_000), (15_625, 62_500, 250_000, 1_000_000)
REPEATS = 4  # of a measurement that does not hold at first
STANDS_STILL = 120.0  # seconds after which the long form ends a process that is still at the same input

# Tokens that mean something in some format, and what stands between words in many scripts.
GENERIC = tuple(
    word.encode()
    for word in (
        *"aA0 \n.,;:!?-_'\"()[]{}<>/\\|@#$%&*+=~^`\t\r",
        *("é", "ß", "日", "か", "ก", "ا", "א", "я", "한", "ﬁ", "🙂", "“", "’", "—", "…", "•", "İ", "Σ"),
        *("\u0301", "\u0316", "\u0345", "\u200b", "\u200d", "\u00ad", "\ufeff", "\u202e", "\u2028", "\x85", "\xa0"),
        *("\x00", "\x1b[", "\x1b[0m", "\x7f", "\ufffd"),
        *("ab ", "the ", "a.b", "The tide came in.\n", "1.", "00", "3-", "www.", "http://", "a@", "a@b.c", "+49 "),
        *"&amp; amp; &# &#38; &lt; <a> </a> <!-- --> {{ }} [[ ]] ''' == =a=".split(),
    )
)
HALF = b"\xed\xa0\x80"  # of a surrogate pair, as if it were a character


@dataclass(frozen=True)
class Subject:
    """A parser to measure. tokens: of its format; frames: what makes an input of a pattern; read: reads an input."""

    tokens: tuple[bytes, ...]
    frames: tuple[Callable[[bytes], bytes], ...]
    read: Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Pattern:
    """A text of any length. once: at its beginning; before, after: as often as each other, one after the other."""

    before: bytes
    after: bytes = b""
    once: bytes = b""

    def text(self, size: int) -> bytes:
        """As many whole repetitions as there is room for in `size` bytes."""
        times = max(1, size // max(1, len(self.before + self.after)))
        return self.once + self.before * times + self.after * times


def patterns(tokens: Sequence[bytes]) -> Iterator[Pattern]:
    """Every pattern that is made of one token."""
    for token in tokens:
        yield from (Pattern(token), Pattern(token + b" "), Pattern(token + b"a"), Pattern(token + b"\n"))
        yield from (Pattern(token, b"a"), Pattern(b"a", token))


def pairs(tokens: Sequence[bytes], random: Random) -> Iterator[Pattern]:
    """Patterns of two and three tokens, without end."""
    while True:
        first, second, third = random.choices(tokens, k=3)
        forms = (
            Pattern(first + second),
            Pattern(first, second),
            Pattern(first + second, third),
            Pattern(first, once=second),
        )
        yield random.choice(forms)


def cost(subject: Subject, data: bytes) -> float:
    """Processor time of reading an input."""
    with tempfile.TemporaryDirectory(prefix="cloze-growth-") as folder:
        begun = time.process_time()
        try:
            subject.read(data, Path(folder))
        except InputError:
            pass  # a file may be refused, but not slowly
        return time.process_time() - begun


def warm_up(subject: Subject) -> None:
    """Read a little in every frame, so that what is made once, as kernels are, is held against no input."""
    for frame in subject.frames:
        cost(subject, frame("The tide &amp; the sea\u0301. a@b.c\n".encode() * 40))


def growth(subject: Subject, make: Callable[[int], bytes], sizes: Sequence[int]) -> str:
    """Return a fault in how the cost of an input grows over sizes, each four times the one before; "" if none."""
    size, before = sizes[0], cost(subject, make(sizes[0]))
    for longer in sizes[1:]:
        spent, repeats = cost(subject, make(longer)), 0
        while spent > max(LEAST_SECONDS, MOST_GROWTH * before) and repeats < REPEATS:
            before, spent = min(before, cost(subject, make(size))), min(spent, cost(subject, make(longer)))
            repeats += 1
        if spent > max(LEAST_SECONDS, MOST_GROWTH * before):
            return f"{spent:.2f} s for {longer} bytes, {before:.3f} s for {size}: {spent / before:.1f} times"
        size, before = longer, spent
    return ""


def trials(subject: Subject, number: int) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Inputs of a subject by name, first those of one token, then of more without end, the same for a number."""
    random, tokens = Random(number), tokens_of(subject)
    for pattern in patterns(tokens):
        yield from ((f"{pattern} in frame {at}", framed(frame, pattern)) for at, frame in enumerate(subject.frames))
    for pattern in pairs(tokens, random):
        at = random.randrange(len(subject.frames))
        yield f"{pattern} in frame {at}", framed(subject.frames[at], pattern)


def tokens_of(subject: Subject) -> tuple[bytes, ...]:
    """The tokens of a subject's format, then all others."""
    return (*subject.tokens, *(token for token in GENERIC if token not in subject.tokens), HALF)


def drawn_patterns(subject: Subject, number: int, count: int) -> list[Pattern]:
    """A few patterns of a subject, half of them of one token: the short form, the same for a number."""
    random, tokens = Random(number), tokens_of(subject)
    single = random.sample(list(patterns(tokens)), count - count // 2)
    return [*single, *islice(pairs(tokens, random), count // 2)]


def framed(frame: Callable[[bytes], bytes], pattern: Pattern) -> Callable[[int], bytes]:
    """Return a function that makes an input of a size."""
    return lambda size: frame(pattern.text(size))


# The long form.


def grow_here(name: str, subject: Subject, seconds: float, number: int, current: Path, tried: int) -> int:
    """Measure one subject; the name of each input is written before it is read. How many faults there are."""
    warm_up(subject)
    gc.freeze()  # or inputs would be charged for looking through all that is there
    end, faults = time.monotonic() + seconds, 0
    for place, (what, make) in enumerate(trials(subject, number)):
        if time.monotonic() >= end:
            break
        if place < tried:
            continue
        current.write_text(f"{place} {what}")
        if fault := growth(subject, make, LONG):
            faults += 1
            print(f"{name}: {what}: {fault}", flush=True)
        tried = place + 1
    print(f"{name}: {tried} patterns, {faults} faults", flush=True)
    return faults


def grow_in_child(name: str, minutes: float, number: int) -> int:
    """Measure one subject in a process of its own; one that stands still is followed by another."""
    tried = 0

    def ended(code: int, current: Path) -> None:
        nonlocal tried
        place, _, what = current.read_text().partition(" ")
        print(f"{name}: {what}: ended by {code}", flush=True)
        tried = int(place) + 1

    return run_in_child(__file__, name, minutes, STANDS_STILL, lambda: {"--seed": number, "--tried": tried}, ended)


def main() -> int:
    """Measure the subjects that are named, or all, so many minutes each at most."""
    subjects: dict[str, Subject] = importlib.import_module("growth_subjects").SUBJECTS
    parser = argparse.ArgumentParser(description="Measure how the cost of reading grows with the input.")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(subjects)}")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--current", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tried", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.current is not None:
        (name,) = options.subjects
        seconds = 60 * options.minutes
        return min(1, grow_here(name, subjects[name], seconds, options.seed, options.current, options.tried))
    return min(1, sum(grow_in_child(name, options.minutes, options.seed) for name in options.subjects or subjects))


if __name__ == "__main__":
    sys.exit(main())
