"""The memory that one worker takes over a file, through the path of a run: records, batches, judging.

    python -m benchmarks.memory '{"kind": "wikipedia", "path": "enwiki.xml.bz2"}'

Promise: a process that does nothing else reads the file from its first byte to its last and prints one line of JSON:
the outcome of the records, and the peak of resident memory. Of that 160 MB are the imported
libraries, 235 MB with the kernels and tables of judging. A dump of 100 MB through a pipe comes to 263 MB, one of pages
of 300 and of 19 MB to 452 MB, a cell of 100 MB in Parquet to 870 MB: Arrow unpacks a cell whole, and a row becomes
JSON. The file may be a pipe: its size is then given with `--size-bytes`.
"""

import argparse
import json
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.judging.batches import judge_records
from corpora.judging.documents import in_batches, read_slices
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally, whole_file
from corpora.sources.registry import make_source

MOST_BYTES = 6_000_000_000  # of address space: a reader without bounds ends here, instead of filling the machine


@dataclass(kw_only=True)
class Reading:
    """The result of reading files.

    records:    counted by the tally; rows: given out by the parser
    documents:  that passed every step, of the batches that were judged
    reasons:    of the dropped rows of those batches, "step: reason"
    damaged:    rows that are damaged drops
    refused:    the paragraph with which a file was refused, "" where none was
    peak_bytes: the most that was resident; begun_bytes: before the first file was opened
    """

    records: int = 0
    rows: int = 0
    documents: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    refused: str = ""
    seconds: float = 0.0
    begun_bytes: int = 0
    peak_bytes: int = 0


def read_all(table: Mapping[str, Any], size_bytes: int, judge_every: int) -> Reading:
    """Read the files of a `[[source]]` table, slice by slice, in this process.

    size_bytes:  of the one file, where it is a pipe; 0 where it is not
    judge_every: one of so many batches is judged; all are parsed
    """
    source = make_source({"name": "measured", **table})
    reading, tally = Reading(begun_bytes=peak_bytes()), Tally()
    start = time.monotonic()
    try:
        batches = in_batches(_records(source, Path(str(table["path"])), size_bytes, tally))
        for number, batch in enumerate(batches):
            reading.rows += len(batch)
            reading.damaged += sum(bool(record.drop and record.drop.damaged) for record in batch)
            if number % judge_every == 0:
                judged = judge_records(batch, source.name, DocumentsSettings())
                reading.documents += judged.documents.num_rows
                reading.reasons.update(judged.reasons)
    except InputError as error:
        reading.refused = str(error)
    reading.records, reading.seconds, reading.peak_bytes = tally.records, time.monotonic() - start, peak_bytes()
    return reading


def _records(source: Source, path: Path, size_bytes: int, tally: Tally) -> Iterator[Record]:
    return read_slices(source, _slices(source, path, size_bytes), tally)


def _slices(source: Source, path: Path, size_bytes: int) -> Iterator[Slice]:
    """Yield a source's slices in order; a pipe is one. Nothing is hashed: the name stands for the content."""
    if size_bytes:
        yield whole_file(RawFile(name=path.name, sha256=path.name, size_bytes=size_bytes, path=str(path)))
        return
    for name, where in source.files():
        yield from source.slices(RawFile(name=name, sha256=name, size_bytes=where.stat().st_size, path=str(where)))


def peak_bytes() -> int:
    """Return the peak of this process's resident memory.

    Not `ru_maxrss` where the kernel has more: that of a new process begins with what its parent held.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", status.read_text())[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the result of reading, as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("source", help="a [[source]] table as JSON")
    parser.add_argument("--size-bytes", type=int, default=0, help="of a pipe (default: 0, the path is of files)")
    parser.add_argument("--judge-every", type=int, default=1, help="judge every n-th batch (default: 1)")
    parsed = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    try:
        reading = read_all(json.loads(parsed.source), parsed.size_bytes, parsed.judge_every)
    except InputError as error:
        parser.error(str(error))
    print(json.dumps(vars(reading)))


if __name__ == "__main__":
    main()
