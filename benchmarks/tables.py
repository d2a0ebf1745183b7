"""Reading tables: the cost of the digests of columns, and what reading one column saves.

The rows are documents of some kilobytes, in record batches of 4 MB as the stages write them, packed with zstd; read
whole and checked, whole and unchecked, and the ids alone. Most of it is unpacking.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Report, Side, cleaned, figure, main, take_turns, text_column
from corpora.store.ledger import Ledger
from corpora.store.manifest import Part
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from corpora.store.tables import open_table

BATCH_BYTES = 4_000_000
SCHEMA = pa.schema(
    [("id", pa.binary(16)), ("revision", pa.int64()), ("source", pa.string()), ("text", pa.large_string())]
)
FOLDER = "documents/texts"


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare reading one part of documents in three ways."""
    texts = cleaned(texts)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(str(Path(folder)))
        rows = _rows(texts)
        part = _put(place, rows)
        read = pa.Table.from_batches(open_table(place, FOLDER, part, "documents"))
        assert read.equals(pa.Table.from_batches(rows)), "what is read is not what was written"
        sides = [
            Side(name="checked", call=lambda _: _read(place, part)),
            Side(name="unchecked", call=lambda _: _read(place, part, checked=False)),
            Side(name="ids, checked", call=lambda _: _read(place, part, ("id",))),
        ]
        megabytes = read.nbytes / 1e6
        return [
            Report(
                title=f"documents read: {figure(megabytes)} MB in {len(rows)} batches, medians of {rounds} rounds",
                amounts={"MB": megabytes, "K rows": read.num_rows / 1000},
                rows=take_turns(sides, rounds),
                notes=("what is read is equal to what was written",),
            )
        ]


def _read(place: Place, part: Part, columns: Sequence[str] | None = None, checked: bool = True) -> int:
    return sum(batch.num_rows for batch in open_table(place, FOLDER, part, "documents", columns, checked=checked))


def _rows(texts: Sequence[str]) -> list[pa.RecordBatch]:
    """Return documents in batches of about BATCH_BYTES of text."""
    sizes = np.cumsum([len(text.encode()) for text in texts])
    bounds = [*np.unique(np.searchsorted(sizes, np.arange(0, sizes[-1], BATCH_BYTES))).tolist(), len(texts)]
    cuts = [texts[first:stop] for first, stop in pairwise(bounds) if first < stop]
    return [
        pa.record_batch(
            [
                [hashlib.md5(text.encode()).digest() for text in cut],
                [len(text) for text in cut],
                ["texts"] * len(cut),
                text_column(cut),
            ],
            SCHEMA,
        )
        for cut in cuts
    ]


def _put(place: Place, rows: Sequence[pa.RecordBatch]) -> Part:
    def build(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.table("documents", SCHEMA) as sink:
            for batch in rows:
                sink.write(batch)
        return Ledger()

    stage = Stage(
        kind="documents",
        name="texts",
        build_version=1,
        settings={},
        parents=(),
        libraries={},
        parts=(PartPlan(name="00000", key=0),),
        build=build,
    )
    return build_stage(place, stage).parts[0]


if __name__ == "__main__":
    main(benchmark)
