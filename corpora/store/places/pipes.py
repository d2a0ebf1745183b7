"""Pipes as inputs: a named one waits for who writes to it, and not for ever."""

import os
import select
from io import BufferedReader
from pathlib import Path

from corpora.errors import InputError

WRITER_SECONDS = 20.0  # to wait for the first byte


def open_file(path: Path) -> BufferedReader:
    """Return the bytes at a path. Raises OSError, and InputError for a pipe to which nobody writes."""
    if not path.is_fifo():
        return path.open("rb")
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(number, select.POLLIN)
    if not poll.poll(WRITER_SECONDS * 1_000):
        os.close(number)
        raise InputError(f"{path} is a pipe, and nothing came through it for {WRITER_SECONDS:.0f} s: name a file.")
    os.set_blocking(number, True)
    return os.fdopen(number, "rb")


def check_not_pipe(path: Path) -> None:
    """Raise InputError for a pipe: what opens it would wait for ever, or read it only once."""
    if path.is_fifo():
        raise InputError(f"{path} is a pipe, and must be a file: write to one what comes through it.")
