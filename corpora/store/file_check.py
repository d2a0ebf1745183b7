"""Checks of whole files: compare a stored file with its recorded digest, and recompute the record of a part.

Promise: a file is read front to back in pieces of a megabyte, from an object store once. A table is memory-mapped and
read only after its bytes have been verified.

Cost: sha256 of every byte, some 1.5 GB a second for each core, plus the digests of a table's pieces, mostly read from
the system's cache; several files are read in parallel. A file of an object store is kept in an unnamed temporary file
meanwhile.
"""

import hashlib
import mmap
import os
import shutil
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
    """Verify the size and SHA-256 of a file, and provide its memory-mapped bytes inside the block.

    Args:
        place: The store.
        path: Path of the file, relative to the store.
        file: The recorded size and digest.

    Raises:
        Damaged: If the file is missing or different, or if the local disk cannot read it.
        InputError: If permission is denied, or the object store does not answer.
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
    """Return an open local file with the bytes of a stored file, and their SHA-256 in hexadecimal digits.

    A file of an object store is copied to an unnamed temporary file.

    Args:
        place: The store.
        path: Path of the file, relative to the store.
        opened: The exit stack that will close the returned file.

    Raises:
        FileNotFoundError: If the file does not exist.
        OSError: If the local disk cannot read the file.
        InputError: If the object store does not answer.
    """
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


def copy_checked_file(source: Place, path: str, file: StoredFile, target: Place, target_path: str) -> None:
    """Copy a file to another store. The copy becomes visible only if its bytes match the recorded digest.

    Args:
        source: The store that contains the file.
        path: Path of the file, relative to `source`.
        file: The recorded digest.
        target: The store to copy to.
        target_path: Path of the copy, relative to `target`.

    Raises:
        Damaged: If the bytes do not match the recorded digest.
        FileNotFoundError: If the file is missing.
        InputError: If the copy cannot be written, e.g. because the disk is full.
    """
    with target.create(target_path) as sink, source.open(path) as stream:
        shutil.copyfileobj(stream, sink, _PIECE_BYTES)
        if sink.sha256() != file.sha256:
            raise Damaged(path, "its bytes are not those that were written")


def find_damage(
    place: Place, kind: str, path: str, file: StoredFile, record_path: str, checks: TableChecks | None
) -> Damaged | None:
    """Verify a file and, optionally, the part record (the document with the digests of its pieces) that describes it.

    Args:
        place: The store.
        kind: Kind of the artifact.
        path: Path of the file, relative to the store.
        file: The recorded size and digest.
        record_path: Path of the part record, relative to the store.
        checks: The entry of the part record for an Arrow file. If None, only the file is verified.

    Returns:
        An error that describes the damage, which the caller can raise or report; None if there is no damage.

    Raises:
        InputError: If permission is denied, or the object store does not answer.
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
    """Return True if a file is an Arrow file. The part record stores digests for the pieces of such files."""
    return file.path.endswith(".arrow")


def rebuild_part_record(place: Place, kind: str, folder: str, part: Part) -> PartRecord:
    """Recompute the record of a part (a set of files of an artifact) from its files. Nothing is written.

    One record batch is decoded at a time.

    Args:
        place: The store.
        kind: Kind of the artifact.
        folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part's description from the manifest.

    Raises:
        Damaged: If a file is missing, damaged or modified.
        InputError: If permission is denied, or the object store does not answer.
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
    """Yield `work(item)` for each item, in order, computed by several threads.

    Items are consumed only slightly ahead: at most two per thread are submitted before their results are taken. An
    exception raised by `work` is raised again when its item's turn comes, and no further items are started.

    >>> list(map_in_threads(abs, [-1, 2]))
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
