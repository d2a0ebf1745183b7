"""Checks of files: whether a stored file is what its part says, and what to keep of a table without a record.

Promise: a file is read front to back in pieces of a megabyte, from an object store once. A table is looked into, mapped
into memory, only once its bytes are known to be those that were written.

Cost: sha256 of every byte, some 1.5 GB a second for each core, and of a table the digests of its pieces, mostly from
what the system still has in memory; several files are read in parallel. A file of an object store is kept in an
unnamed temporary file meanwhile.
"""

import hashlib
import mmap
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from corpora.errors import InputError
from corpora.generic_types import Item, Result
from corpora.store.damage import Damaged
from corpora.store.digests.arrow_layout import TableChecks, digest_table, find_mismatch
from corpora.store.digests.content import Content, compute_content
from corpora.store.manifest import Part, PartRecord, StoredFile
from corpora.store.places.place import Place

_PIECE_BYTES = 1 << 20
_MAX_THREADS = 8
_SORT_COLUMNS = {("tokens", "tokens"): "shuffle"}  # (kind, table): the column that the rows ascend by


@contextmanager
def open_checked_bytes(place: Place, path: str, file: StoredFile) -> Iterator[memoryview]:
    """All bytes of a file, mapped into memory, after they were compared with their sha256.

    path: in the store. Raises Damaged, and InputError where it cannot be read for another reason.
    """
    with ExitStack() as opened:
        try:
            image, sha256 = _open_hashed(place, path, opened)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Damaged(path, "it is gone") from error
        except OSError as error:
            if place.is_local and not isinstance(error, PermissionError):
                raise Damaged(path, f"it cannot be read ({error.strerror})") from error
            raise InputError(f"Cannot read {place.to_address(path)}: {error}. Fix that, then try again.") from error
        size = os.fstat(image.fileno()).st_size
        if size != file.size_bytes:
            raise Damaged(path, f"it has {size} bytes instead of {file.size_bytes}")
        if sha256 != file.sha256:
            raise Damaged(path, "its bytes are not those that were written")
        yield memoryview(mmap.mmap(image.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")


def _open_hashed(place: Place, path: str, opened: ExitStack) -> tuple[IO[bytes], str]:
    """A file of this machine with the bytes of a stored one, and their sha256."""
    digest = hashlib.sha256()
    if place.is_local:
        image = opened.enter_context(Path(place.to_full_path(path)).open("rb", buffering=0))
        while piece := image.read(_PIECE_BYTES):
            digest.update(piece)
        return image, digest.hexdigest()
    copy = opened.enter_context(tempfile.TemporaryFile())
    with place.open(path) as source:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            copy.write(piece)
    copy.flush()
    return copy, digest.hexdigest()


def find_damage(
    place: Place, kind: str, path: str, file: StoredFile, record_path: str, checks: TableChecks | None
) -> Damaged | None:
    """Return what is wrong with a file, or with what its part's record says of it; None if nothing.

    path, record: in the store, of the file and of the record; checks: what that says, where it can be read
    """
    try:
        with open_checked_bytes(place, path, file) as data:
            mismatch = _find_mismatch(data, kind, file, checks) if checks is not None else None
    except Damaged as damage:
        return damage
    except pa.ArrowInvalid as error:
        return Damaged(path, f"it was written as something that is no table ({error})")
    return None if mismatch is None else Damaged(record_path, f"it says of {file.path} what is not so: {mismatch}")


def _find_mismatch(data: memoryview, kind: str, file: StoredFile, checks: TableChecks) -> str | None:
    if sum((batch.content for batch in checks.batches), Content()) != file.content:
        return "its rows"
    return find_mismatch(data, checks, _SORT_COLUMNS.get((kind, file.table)))


def is_table(file: StoredFile) -> bool:
    """True if a file of a part is an Arrow file, which the part's record describes."""
    return file.path.endswith(".arrow")


def rebuild_part_record(place: Place, kind: str, folder: str, part: Part) -> PartRecord:
    """The record of a part whose files are there, made from them. Decodes one record batch at a time.

    folder: of its stage. Raises Damaged where a file is not the one that the part names.
    """
    checks: dict[str, TableChecks] = {}
    for file in part.files:
        path = f"{folder}/{file.path}"
        with open_checked_bytes(place, path, file) as data:
            if is_table(file):
                checks[file.path] = _digest_table(data, path, file, _SORT_COLUMNS.get((kind, file.table)))
    return PartRecord(part=part, checks=checks)


def _digest_table(data: memoryview, path: str, file: StoredFile, sorted_by: str | None) -> TableChecks:
    try:
        checks = digest_table(data, compute_content, sorted_by)
    except pa.ArrowInvalid as error:
        raise Damaged(path, f"it is no table ({error})") from error
    if sum((batch.content for batch in checks.batches), Content()) != file.content:
        raise Damaged(path, "it holds other rows than its part says")
    return checks


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of some work on each item, in order, from several threads: no more than two items each under way.

    >>> list(side_by_side(abs, [-1, 2]))
    [1, 2]
    """
    threads = min(_MAX_THREADS, len(os.sched_getaffinity(0)))
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, "check") as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) >= 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
