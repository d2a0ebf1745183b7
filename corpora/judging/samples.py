"""Samples of records from every kind of file that a source reads, for previews and for statistics.

Promises: kinds of files (by extension) alternate, and so do the files of a kind, so that a few records show what a
folder contains. The same files yield the same records in the same order. Costs: the time for parsing these records;
`MAX_OPEN_FILES` files of each kind are open at a time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from corpora.errors import FileFault
from corpora.generic_types import Item
from corpora.judging.documents import cut_files, read_slices
from corpora.sources.bytes.endings import find_ending
from corpora.sources.contract import RawFile, Record, Source, Tally

MAX_OPEN_FILES = 8


def _raise_fault(fault: FileFault) -> None:
    raise fault


def sample_records(
    source: Source,
    files: Sequence[RawFile],
    on_fault: Callable[[FileFault], None] = _raise_fault,
    tally: Tally | None = None,
) -> Iterator[Record]:
    """Yield records of raw files, alternating between file extensions and between the files with each extension.

    Args:
        source: The source that the files belong to, which parses them.
        files: The raw files to sample.
        on_fault: Called with the error if a file cannot be read; the rest of that file is skipped. By default the
            error (a FileFault) is raised.
        tally: Counts the records and knows which are in quarantine. If None, a new one is used for each file.

    Yields:
        All records in a deterministic order. At most MAX_OPEN_FILES files of each kind are open at a time.
    """
    kinds: dict[str, list[RawFile]] = {}
    for file in files:
        kinds.setdefault(find_ending(file.name), []).append(file)
    streams = (
        interleave((_read_file(source, file, on_fault, tally or Tally()) for file in kind_files), MAX_OPEN_FILES)
        for _, kind_files in sorted(kinds.items())
    )
    return interleave(streams, len(kinds))


def _read_file(source: Source, file: RawFile, on_fault: Callable[[FileFault], None], tally: Tally) -> Iterator[Record]:
    """Yield the records of one raw file. If it cannot be read, call `on_fault` with the error and stop.

    `tally` counts the records, and knows which are in quarantine.
    """
    try:
        yield from read_slices(source, cut_files(source, [file]), tally)
    except FileFault as fault:
        on_fault(fault)


def interleave(streams: Iterable[Iterator[Item]], max_open: int) -> Iterator[Item]:
    """Yield items from several iterators in round-robin order, using at most `max_open` iterators at a time.

    When an iterator is exhausted, the next waiting one takes its turn.

    >>> "".join(interleave(map(iter, ("aaa", "b", "cc", "dd")), 2))
    'abaaccdd'
    """
    waiting = iter(streams)
    open_now = deque(islice(waiting, max_open))
    while open_now:
        stream = open_now.popleft()
        try:
            yield next(stream)
        except StopIteration:
            open_now.extend(islice(waiting, 1))
        else:
            open_now.append(stream)
