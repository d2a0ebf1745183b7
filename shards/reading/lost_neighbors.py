"""Lost neighbours: examples that are no longer read because another document in them was deleted."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.store.manifest import Part
from corpora.store.tables import open_table
from shards.reading.files.shard_set import HELD, ShardSet, row_keys


def lost_neighbours(shards: ShardSet, part: Part) -> tuple[int, int]:
    """Count the examples of a shard of which one document is deleted and another is not; and all its examples."""
    generation = int(part.labels["generation"])
    gone = [
        id + revision.to_bytes(8, "little", signed=True)
        for id, revision, held in shards.deleted_rows
        if held == generation
    ]
    examples = part.rows("examples")
    if not gone or not examples:
        return 0, examples
    batches = open_table(shards.place, shards.manifest.stage_folder, part, "examples", HELD)
    table = pa.Table.from_batches(batches).combine_chunks()
    ids, revisions = (table.column(name).combine_chunks() for name in HELD)
    keys = row_keys(ids.flatten(), revisions.flatten())
    is_gone = pc.is_in(keys, value_set=pa.array(gone, keys.type)).to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(ids).to_numpy()
    held, lost = np.bincount(rows, minlength=examples), np.bincount(rows[is_gone], minlength=examples)
    return int(np.count_nonzero((lost > 0) & (lost < held))), examples
