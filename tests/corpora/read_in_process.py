"""The memory that one worker takes over a file, through the path of a run: records, batches, judging.

    read_in_process.py '{"kind": "wikipedia", "path": "enwiki.xml.bz2"}' 0 1

A process that does nothing else reads the file from its first byte to its last and prints one line of JSON: the
outcome of the records, and the peak of resident memory. Of that 160 MB are the imported libraries, 235 MB with the
kernels and tables of judging. A dump of 100 MB through a pipe comes to 263 MB, one of pages of 300 and of 19 MB to
452 MB, a cell of 100 MB in Parquet to 870 MB: Arrow unpacks a cell whole, and a row becomes JSON. The arguments are a
`[[source]]` table, the bytes of the file where it is a pipe, and of how many batches one is judged.
"""

import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.judging.batches import judge_records
from corpora.judging.documents import iter_batches, read_slices
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import RawFile, Slice, Source, Tally, slice_whole_file
from corpora.sources.registry import make_source

MOST_BYTES = 6_000_000_000  # of address space: a reader without bounds ends here, instead of filling the machine


def read_all(table: Mapping[str, Any], size_bytes: int, judge_every: int) -> dict[str, Any]:
    """Read the files of a `[[source]]` table, slice by slice, in this process.

    size_bytes:  of the one file, where it is a pipe; 0 where it is not
    judge_every: one of so many batches is judged; all are parsed

    records: counted by the tally; rows: given out by the parser; damaged: those that are damaged drops
    documents, reasons: those that passed every step of the batches that were judged, and "step: reason" of the others
    refused: the paragraph with which a file was refused, "" where none was
    peak_bytes: the most that was resident; begun_bytes: before the first file was opened
    """
    source, tally, begun = make_source({"name": "measured", **table}), Tally(), peak_bytes()
    sums, reasons, refused = Counter(rows=0, damaged=0, documents=0), Counter[str](), ""
    try:
        slices = _slices(source, Path(str(table["path"])), size_bytes)
        for number, batch in enumerate(iter_batches(read_slices(source, slices, tally))):
            sums["rows"] += len(batch)
            sums["damaged"] += sum(bool(record.drop and record.drop.damaged) for record in batch)
            if number % judge_every == 0:
                judged = judge_records(batch, source.name, DocumentsSettings())
                sums["documents"] += judged.documents.num_rows
                reasons.update(judged.reasons)
    except InputError as error:
        refused = str(error)
    memory = {"begun_bytes": begun, "peak_bytes": peak_bytes()}
    return {"records": tally.records, **sums, "reasons": reasons, "refused": refused, **memory}


def _slices(source: Source, path: Path, size_bytes: int) -> Iterator[Slice]:
    """Yield a source's slices in order; a pipe is one. Nothing is hashed: the name stands for the content."""
    if size_bytes:
        yield slice_whole_file(RawFile(name=path.name, sha256=path.name, size_bytes=size_bytes, path=str(path)))
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


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    print(json.dumps(read_all(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
