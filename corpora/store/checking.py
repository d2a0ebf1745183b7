"""Files checked: is a stored file what its part says, and what is to be kept of a table that nobody described.

Cost: a check reads every byte once and computes its sha256, some 1.5 GB a second for each core; several files are
read next to each other, each in pieces of a megabyte.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from corpora.store.arrow_layout import TableChecks, check_table
from corpora.store.content import Content, content_of
from corpora.store.damage import Damaged
from corpora.store.manifest import Part, StoredFile
from corpora.store.part_record import PartRecord
from corpora.store.places import Place

Item = TypeVar("Item")
Result = TypeVar("Result")

_PIECE = 1 << 20
_MOST_THREADS = 8
_SORTED_BY = {("tokens", "tokens"): "shuffle"}  # (kind, table): the column that the rows ascend by


def find_damage(place: Place, path: str, file: StoredFile) -> Damaged | None:
    """What is wrong with a file: it is gone, of another size, or of other bytes.

    path: in the store
    """
    try:
        size, sha256 = _size_and_sha256(place, path)
    except FileNotFoundError:
        return Damaged(path, "it is gone")
    if size != file.size_bytes:
        return Damaged(path, f"it has {size} bytes instead of {file.size_bytes}")
    return None if sha256 == file.sha256 else Damaged(path, "its bytes are not those that were written")


def _size_and_sha256(place: Place, path: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with place.open(path) if not place.is_local else Path(place.full_path(path)).open("rb", buffering=0) as source:
        while piece := source.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def describe_part(place: Place, kind: str, folder: str, part: Part) -> PartRecord:
    """The record of a part whose files are there, made from them. Reads them twice; decodes one batch at a time.

    folder: of its stage. Raises Damaged where a file is not the one that the part names.
    """
    for file in part.files:
        damage = find_damage(place, f"{folder}/{file.path}", file)
        if damage is not None:
            raise damage
    tables = (file for file in part.files if file.path.endswith(".arrow"))
    return PartRecord(part=part, checks={file.path: _describe_table(place, kind, folder, file) for file in tables})


def _describe_table(place: Place, kind: str, folder: str, file: StoredFile) -> TableChecks:
    path = f"{folder}/{file.path}"
    with place.open(path) as source:
        data = source.read_buffer()
        try:
            checks = check_table(memoryview(data), content_of, _SORTED_BY.get((kind, file.table)))
        except pa.ArrowInvalid as error:
            raise Damaged(path, f"it is no table ({error})") from error
    if sum((batch.content for batch in checks.batches), Content()) != file.content:
        raise Damaged(path, "it holds other rows than its part says")
    return checks


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of some work on each item, in order, from several threads: no more than two items each under way.

    >>> list(side_by_side(abs, [-1, 2]))
    [1, 2]
    """
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
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
