"""How the cost of reading grows: a few patterns for every subject, in the long tier many, and what was found."""

import re
import zlib

import pytest
from growth import SIZES, Subject, drawn_patterns, framed, growth, warm_up
from growth_subjects import FOUND, SUBJECTS
from tiers import LONG, mostly_long

PACKED = ("-gz", "-bz2", "-xz", "-zst", "-tgz", "-tar", "-http", "-streams", "-index")  # read as what is in them is
READ = [name for name in SUBJECTS if not name.endswith(PACKED)]


@pytest.mark.parametrize("name", mostly_long(READ, 15))
def test_cost_does_not_grow_with_the_square_of_the_text(name: str) -> None:
    """Fails if reading, or judging, a text that repeats itself takes time that grows with the square of its length."""
    subject, number = SUBJECTS[name], zlib.crc32(name.encode())
    warm_up(subject)
    for place, pattern in enumerate((*FOUND.get(name, ()), *drawn_patterns(subject, number, 20 if LONG else 2))):
        frames = subject.frames if pattern in FOUND.get(name, ()) else subject.frames[place % len(subject.frames) :][:1]
        for frame in frames:
            assert not growth(subject, framed(frame, pattern), SIZES), pattern


def test_what_was_found_is_of_subjects_that_are_read() -> None:
    assert set(FOUND) <= set(READ)


def test_growth_with_the_square_is_seen() -> None:
    """Fails if the test above could not fail."""
    frames, begins_again = (bytes,), re.compile(rb"a*b")
    found = growth(
        Subject((), frames, lambda data, _: begins_again.search(data)), lambda size: b"a" * size, (4_000, 16_000)
    )
    assert "times" in found
    assert not growth(Subject((), frames, lambda data, _: data.count(b"b")), lambda size: b"a" * size, SIZES)
