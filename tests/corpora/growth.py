"""Growth: what reading a text costs where four times as much of it is read, whatever it repeats.

Promise looked after: no input makes a parser or a step take more than `MOST_GROWTH` times the processor time for four
times the bytes. The inputs are made of short tokens by `patterns`, the same way for every subject: each token over and
over, alone and with a word, a space or a line break between; two in turn; one so many times, then another as often,
which nests. They come alone and in the place of the prose of whole files (`frames_of`).

Measured is the processor time of this process; a step that seems to grow too fast is measured again, and the
best of all counts, so other work on the machine fails nothing.
"""
# ruff: noqa: RUF001 - typographic marks are part of what is read

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from corpora.errors import InputError

MOST_GROWTH = 8.0  # of processor time, if there is four times as much to read; what is quadratic takes sixteen times
LEAST_SECONDS = 0.1  # of the longer input; below, what is constant says more than what grows
SIZES = (50_000, 200_000)
REPEATS = 4  # of a measurement that does not hold at first

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


def tokens_of(subject: Subject) -> tuple[bytes, ...]:
    """The tokens of a subject's format, then all others."""
    return (*subject.tokens, *(token for token in GENERIC if token not in subject.tokens), HALF)


def drawn_patterns(subject: Subject, number: int, count: int) -> list[Pattern]:
    """A few patterns of a subject, half of them of one token, the same for a number."""
    random, tokens = Random(number), tokens_of(subject)
    single = random.sample(list(patterns(tokens)), count - count // 2)
    return [*single, *islice(pairs(tokens, random), count // 2)]


def framed(frame: Callable[[bytes], bytes], pattern: Pattern) -> Callable[[int], bytes]:
    """Return a function that makes an input of a size."""
    return lambda size: frame(pattern.text(size))
