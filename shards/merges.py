"""The stage `merges`: tokens of a generation of many parts, in few parts that are as sorted.

A shard reads a range of the shuffle hash from every part of its generation: what costs parts times shards. Of merged
parts there are few. Each is one pass over parts that are all open at once, a record batch of each in memory.

Promise: the rows are those of the parts, in the order of (shuffle, id), so shards are those of the parts themselves.
Memory: `RANGE_TOKENS` tokens three times and a record batch of every part.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.merging import MergeJob, plan_merge
from corpora.store.part_writer import PartWriter
from corpora.store.stage import PartPlan, Stage
from corpora.store.tables import open_table
from shards.frequencies import parts_of
from shards.schema import token_schema
from shards.tokens import batch_rows

VERSION = 1
COLUMNS = tuple(token_schema(pa.uint16()).names)
RANGE_TOKENS = 1 << 24  # that are sorted at once


def plan_merges(tokens: Manifest) -> Stage | None:
    """The stage that merges the tokens of generations of many parts; None where none has many."""
    generations = sorted({int(part.labels["generation"]) for part in tokens.parts})
    sets = [parts_of(tokens, generation, ()) for generation in generations]
    return plan_merge("merges", VERSION, tokens, sets, ("generation", "source"), build_merged_part)


def build_merged_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Merge some parts of tokens."""
    job: MergeJob = plan.job
    figures = Counter[str]()
    for part in job.parts:
        figures.update(part.ledger.figures)
    opened = [_Sorted(open_table(writer.place, job.folder, part, "tokens", COLUMNS)) for part in job.parts]
    ranges = max(1, -(-(figures["train tokens"] + figures["held-out tokens"]) // RANGE_TOKENS))
    first = next((each.batch.schema for each in opened if each.batch is not None), None)
    assert first is not None, "a generation of many parts has tokens"
    written = 0
    with writer.table("tokens", first, sorted_by="shuffle") as sink:
        for number in range(ranges):
            last = ((number + 1 << 64) // ranges) - 1
            read = pa.Table.from_batches([batch for each in opened for batch in each.until(last)], first)
            rows = read.sort_by([("shuffle", "ascending"), ("id", "ascending")]).combine_chunks()
            for stretch in batch_rows(pc.list_value_length(rows.column("ids")).to_numpy()):
                sink.write(rows.slice(stretch.start, len(stretch)))
            written += rows.num_rows
    total = sum(part.rows("tokens") for part in job.parts)
    return Ledger(
        accounts=(Account(unit="documents", total=total, outcomes={"merged": written}),), figures=dict(figures)
    )


class _Sorted:
    """The rows of a sorted table, range after range. batch: what was read and not given yet"""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.batch = next(batches, None)

    def until(self, last: int) -> Iterator[pa.RecordBatch]:
        """Give the rows that were not given yet, up to the hash `last`."""
        while self.batch is not None:
            keys = self.batch.column("shuffle").to_numpy()
            stop = int(np.searchsorted(keys, np.uint64(last), "right"))
            yield self.batch.slice(0, stop)
            if stop < len(keys):
                self.batch = self.batch.slice(stop)
                return
            self.batch = next(self._batches, None)
