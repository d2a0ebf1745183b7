"""The statistics of a source with which its documents are judged: their tables, and how they are read.

`corpora.judging.statistics_build` computes them.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import UInt64s
from corpora.store.manifest import Part
from corpora.store.places.place import Place
from corpora.store.settings import check_range
from corpora.store.tables import read_part_table

MIN_DOCUMENTS = 5

LINES = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),  # ascending
        pa.field("documents", pa.int64(), nullable=False),  # of the sample, that have the line
        pa.field("line", pa.large_string(), nullable=False),  # as one of them has it
    ]
)
CUT = pa.schema(
    [
        pa.field("least_score", pa.int64(), nullable=False),
        pa.field("kept", pa.int64(), nullable=False),
        pa.field("total", pa.int64(), nullable=False),
        pa.field("tied", pa.int64(), nullable=False),  # of the kept, at the least score itself
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedLineSettings:
    """Settings for removing lines that many of a source's documents share.

    min_documents, min_share: a line is removed if at least `min_documents` documents of the sample contain it, and if
                              these are at least the share `min_share` of the sample's documents
    sample_bytes:             number of raw bytes to read for the sample, which is also used for selection
    """

    enabled: bool = False
    min_documents: int = 20
    min_share: float = 0.005
    sample_bytes: int = 256_000_000

    def __post_init__(self) -> None:
        check_range("repeated_lines.min_documents", self.min_documents, MIN_DOCUMENTS, 1 << 40)
        check_range("repeated_lines.min_share", self.min_share, 0.0, 1.0)
        check_range("repeated_lines.sample_bytes", self.sample_bytes, 1, 1 << 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatistics:
    """Statistics of a source, computed from a sample of its documents. An attribute is None if its step is disabled.

    repeated_lines: hashes of the lines that many documents share, in ascending order
    least_score:    minimum score; selection drops documents with a lower one
    """

    repeated_lines: UInt64s | None = None
    least_score: int | None = None


NO_STATISTICS = SourceStatistics()


def read_statistics(place: Place, folder: str, part: Part) -> SourceStatistics:
    """Read the statistics of a source from the only part (file set) of its `fits` stage.

    Args:
        place: The store.
        folder: Folder of the stage in the store.
        part: The part, as listed in the stage's manifest.

    Raises:
        Damaged: If a file is missing, damaged or modified.
    """
    schemas = {"lines": LINES, "cut": CUT}
    kinds = {file.table: schemas[file.table] for file in part.files}
    tables = {
        table: pa.Table.from_batches(read_part_table(place, folder, part, table, schema.names), schema)
        for table, schema in kinds.items()
    }
    return SourceStatistics(
        repeated_lines=tables["lines"].column("hash").to_numpy().astype(np.uint64) if "lines" in tables else None,
        least_score=tables["cut"]["least_score"][0].as_py() if "cut" in tables else None,
    )
