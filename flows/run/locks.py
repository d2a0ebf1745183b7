"""A recipe's lock file is read, added to and written by one run at a time."""

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.store.locks import held

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def recipe_held(lock_path: Path | None, tell: Callable[[str], None]) -> Iterator[None]:
    """Keep other runs of a recipe from its lock for the time of the block, so that no two find one file to be new.

    Raises InputError where the lock's folder cannot be written.
    """
    with ExitStack() as stack:
        if lock_path is not None:
            file = lock_path.with_name(f".{lock_path.name}.held")
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(file, lambda: tell("Another run of this recipe finds its raw files first.")))
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise InputError(
                        f"Cannot write {lock_path}: {error.strerror}. The lock is next to its recipe: copy the "
                        "recipe to a folder that you may write."
                    ) from error
                file.unlink()
                tell(f"The file system of {lock_path.parent} knows no locks: run this recipe once at a time.")
        yield
