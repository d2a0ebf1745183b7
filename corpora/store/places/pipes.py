"""Pipes as inputs: a pipe that nobody writes to is refused after a while, instead of blocking forever."""

import os
import select
from io import BufferedReader
from pathlib import Path

from corpora.errors import InputError

WRITER_SECONDS = 20.0  # to wait for the first byte


def open_file(path: Path) -> BufferedReader:
    """Open a regular file or a named pipe for reading.

    Raises:
        InputError: If the file is a pipe and no data arrives within WRITER_SECONDS.
        OSError: If the file cannot be opened.
    """
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
    """Refuse a named pipe. Opening one could block forever, and it can be read only once.

    Raises:
        InputError: If the file is a named pipe. Nothing is raised if it does not exist.
    """
    if path.is_fifo():
        raise InputError(f"{path} is a pipe, and must be a file: write to one what comes through it.")
