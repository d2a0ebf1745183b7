"""Count how often each token occurs: for masks that draw random tokens as often as they occur in the text.

    tokens of the first generation ─► a sample of its training split ─► counts ─► weights of the random ids

The counts are fitted once, on the first generation that has training documents, and hold for all later ones: a new
generation changes no mask of an older one. They are a part of the shards, so a reader finds them there.

Cost: at most `MAX_SAMPLE_TOKENS` tokens are read, the first rows of every part; rows are in the order of a hash, so
that is a uniform sample. 0.1 CPU seconds for ten million tokens (one x86-64 core), and once a process for static masks.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Int64s
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest_at
from corpora.store.tables import read_part_table, read_table

MAX_SAMPLE_TOKENS = 10_000_000  # tokens
FREQUENCIES = pa.schema(
    [
        pa.field("token_id", pa.uint32(), nullable=False),
        pa.field("occurrences", pa.int64(), nullable=False),  # in the sample, at least one
    ]
)


def list_parts(tokens: Manifest, generation: int, sources: Sequence[str]) -> tuple[Part, ...]:
    """List the tokenized parts (sets of files) of one corpus update that may contain documents of these sources.

    A part without the label "source" may contain documents of any source, so it is always included.

    Args:
        tokens: The artifact of the tokenized corpus.
        generation: The corpus update, counted from 1.
        sources: Names of sources. If empty, all are included.
    """
    of_generation = (part for part in tokens.parts if part.labels["generation"] == str(generation))
    return tuple(part for part in of_generation if not sources or part.labels.get("source", sources[0]) in sources)


def list_counted_parts(tokens: Manifest, sources: Sequence[str]) -> tuple[Part, ...]:
    """List the tokenized parts (sets of files) in which token frequencies are counted.

    These are the parts of the first corpus update with training documents of the sources. The result is empty if there
    are no training documents.

    Args:
        tokens: The artifact of the tokenized corpus.
        sources: Names of sources. If empty, all are included.
    """
    for generation in sorted({int(part.labels["generation"]) for part in tokens.parts}):
        parts = list_parts(tokens, generation, sources)
        if any(part.ledger.figures["train documents"] for part in parts):
            return parts
    return ()


@lru_cache(2)
def count_tokens(place: Place, address: ManifestAddress, sources: tuple[str, ...], size: int) -> Int64s:
    """Count how often each token occurs in a sample of the training documents: int64 [size], read-only.

    The last two results are cached.

    Args:
        place: The store.
        address: Address of the artifact of the tokenized corpus.
        sources: Names of sources. If empty, all are included.
        size: Number of tokens in the vocabulary.

    Raises:
        Damaged: A part is damaged or was changed.
    """
    tokens = read_manifest_at(place, address)
    parts = list_counted_parts(tokens, sources)
    part_of_rows = max(1, -(-sum(part.ledger.figures["train tokens"] for part in parts) // MAX_SAMPLE_TOKENS))
    counts = np.zeros(size, np.int64)
    columns = ("held_out", "ids", *(("source",) if sources else ()))
    for part in parts:
        rows = range(-(-part.count_rows("tokens") // part_of_rows))
        for batch in read_part_table(place, tokens.stage_folder, part, "tokens", columns, rows) if rows else ():
            wanted = pc.invert(batch.column("held_out"))
            if sources:
                wanted = pc.and_(wanted, pc.is_in(batch.column("source"), pa.array(sources, pa.string())))
            counts += np.bincount(batch.filter(wanted).column("ids").flatten().to_numpy(), minlength=size)
    counts.flags.writeable = False
    return counts


def to_frequency_rows(counts: Int64s) -> pa.RecordBatch:
    """Convert token counts to a record batch with the schema `FREQUENCIES`, one row per token that occurs.

    Args:
        counts: int64 [vocabulary], how often each token occurs.
    """
    occurring = np.flatnonzero(counts)
    columns = [pa.array(occurring.astype(np.uint32)), pa.array(counts[occurring])]
    return pa.RecordBatch.from_arrays(columns, schema=FREQUENCIES)


def read_frequencies(place: Place, shards: Manifest) -> Int64s:
    """Read the token counts that are stored with a shard set: int64 [vocabulary]. If none are stored, all counts are 0.

    Raises:
        Damaged: A file is damaged or was changed.
    """
    counts = np.zeros(shards.facts["vocab_size"], np.int64)
    for batch in read_table(place, shards, "frequencies", FREQUENCIES.names):
        counts[batch.column("token_id").to_numpy()] = batch.column("occurrences").to_numpy()
    return counts
