"""Holds a file so that only one process of a machine does something, on a disk that has locks."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.files import NO_LOCK_ERRORS, hold_lock


@contextmanager
def held_alone(
    file: Path, refusal: Callable[[OSError], InputError], tell: Tell, waiting: str = "", lockless: str = ""
) -> Iterator[None]:
    """Hold a file for the time of the block, alone, if its file system has locks. Raises `refusal` of what it answers.

    waiting, lockless: lines for while another process holds the file, and for a file system without locks
    """
    with ExitStack() as stack:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold_lock(file, lambda: tell(waiting)))
        except OSError as error:
            if error.errno not in NO_LOCK_ERRORS:
                raise refusal(error) from error
            file.unlink()
            tell(lockless)
        yield
