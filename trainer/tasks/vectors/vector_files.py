"""Reads and writes vectors of texts in Parquet files. No torch.

    id       string, the record's own id or its line number
    place    int32, the index of a word or token in its text; only if rows are words or tokens
    text     the word or token; only if rows are words or tokens
    vector   float32 or float16, the same number in every row

The schema's metadata records how vectors were computed (`VectorOrigin`), so that vectors of different models are not
compared.

Promise: the file appears in one step when it is complete. What a killed process left behind is removed by the next one.
Values that are not finite are refused in writing and reading. Memory: a batch, or a block.
"""

import dataclasses
import glob
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.store.places.files import remove_abandoned, replace_file
from corpora.store.settings import bind_settings
from trainer.complete_folders import explain_disk_errors

METADATA_KEY = b"cloze"  # the key of the metadata
BLOCK_ROWS = 16_384
PRECISIONS = {"float32": pa.float32(), "float16": pa.float16()}


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOrigin:
    """How vectors were computed. It is stored with the vectors, so that those of different models are not compared.

    model:   digest of the weights
    by:      unit of a row: "text", "word" or "token"
    pooling: pooling of a text's tokens
    layers:  indices of the layers, where 0 is the input of the first layer
    combine: how several layers are combined; "" if there is only one
    side:    encoder that was used if the model has two: "first" or "second"
    similarity: how the vectors should be compared: "cosine", "dot", or a name that another library uses
    max_length: maximum number of tokens of a text
    prompt:  text that was put in front of each text; it may differ between queries and documents
    """

    model: str
    by: str
    pooling: str
    layers: tuple[int, ...]
    combine: str
    side: str
    similarity: str
    max_length: int
    prompt: str = ""

    def to_comparison_key(self) -> tuple[Any, ...]:
        """Return the values that must be equal for the vectors of two files to be comparable.

        They are the model, the pooling, the layers and how they are combined, and the similarity.
        """
        return (self.model, self.pooling, self.layers, self.combine, self.similarity)


class VectorRows(NamedTuple):
    """Rows of a vector file.

    `vectors` is [N, H]. If rows are words or tokens, `places` has their zero-based indices within the text, and `texts`
    their strings. Otherwise both are empty.
    """

    ids: Sequence[str]
    vectors: npt.NDArray[Any]
    places: Sequence[int] = ()
    texts: Sequence[str] = ()


def build_schema(origin: VectorOrigin, width: int, precision: str) -> pa.Schema:
    """Build the schema of a vector file.

    Args:
        origin: How the vectors are computed; stored as metadata.
        width: The number of dimensions of a vector.
        precision: "float32" or "float16".
    """
    by_piece = [] if origin.by == "text" else [("place", pa.int32()), ("text", pa.string())]
    schema = pa.schema([("id", pa.string()), *by_piece, ("vector", pa.list_(PRECISIONS[precision], width))])
    return schema.with_metadata({METADATA_KEY: json.dumps(dataclasses.asdict(origin))})


def build_table(rows: VectorRows, schema: pa.Schema) -> pa.Table:
    """Convert rows to a table with the columns of a vector file.

    Raises InputError if a value is not finite in the precision of the schema.
    """
    kind = schema.field("vector").type
    with np.errstate(over="ignore"):
        vectors = rows.vectors.astype(kind.value_type.to_pandas_dtype())
    _check_finite(rows.ids, vectors, "Ask for float32, or fix the model.")
    columns: dict[str, Any] = {"id": pa.array(rows.ids, pa.string())}
    if "place" in schema.names:
        columns |= {"place": pa.array(rows.places, pa.int32()), "text": pa.array(rows.texts, pa.string())}
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), kind.list_size)
    return pa.table(columns, schema=schema)


@contextmanager
def create_vector_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Create a vector file during the block. The block is given a function that writes a table to the file.

    The file appears under its name only when the block ends without an error.

    Raises:
        InputError: If the disk is full or the file cannot be written.
    """
    with explain_disk_errors(path):
        remove_abandoned(path.parent.glob(f".{glob.escape(path.name)}.*"))
        with (
            replace_file(path) as new,
            pq.ParquetWriter(new, schema, compression="none", use_dictionary=False) as writer,
        ):
            yield writer.write_table


class VectorFile:
    """A vector file that is open for reading. It may come from another program if it has the columns `id` and `vector`.

    path:     path of the file
    name:     name of the file in messages
    width:    number of dimensions of a vector
    num_rows: number of rows
    origin:   how the vectors were computed; None for a file from another program
    """

    def __init__(self, path: Path, name: str = "") -> None:
        """Open a vector file. `name` is used in messages, by default the path.

        Raises:
            InputError: If the file cannot be read or is not a vector file.
        """
        self.path, self.name = path, name or str(path)
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read as Parquet: {str(error).rstrip('.')}.") from error
        schema = self._file.schema_arrow
        lacking = [name for name in ("id", "vector") if name not in schema.names]
        if lacking or not pa.types.is_fixed_size_list(schema.field("vector").type):
            what = f"has no column {lacking[0]!r}" if lacking else "has vectors of different lengths"
            raise InputError(f"{path} {what}: give a file that `cloze embed` wrote.")
        self.width: int = schema.field("vector").type.list_size
        self.num_rows: int = self._file.metadata.num_rows
        made = (schema.metadata or {}).get(METADATA_KEY)
        self.origin = None if made is None else bind_settings(VectorOrigin, json.loads(made), "how vectors were made")

    def iter_blocks(self, rows: int = BLOCK_ROWS) -> Iterator[tuple[list[str], Float32s]]:
        """Yield blocks of ids and vectors, float32 [N, H], in the order of the file.

        Args:
            rows: The maximum number of rows of a block.

        Raises:
            InputError: While iterating, if the file is damaged, or a vector is missing or not finite.
        """
        try:
            for batch in self._file.iter_batches(rows, columns=["id", "vector"], use_threads=False):
                ids = [str(each) for each in batch.column("id").to_pylist()]
                column = batch.column("vector")
                if column.null_count:
                    raise InputError(f"{self.path} has rows without a vector: make it again.")
                vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.width).astype(np.float32)
                _check_finite(ids, vectors, f"Make {self.path} again.")
                yield ids, vectors
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.path} is damaged: {str(error).rstrip('.')}. Make it again.") from error

    def read_all(self) -> tuple[list[str], Float32s]:
        """Read all ids and vectors, float32 [N, H], into memory.

        Raises InputError if the file is damaged, or if a vector is missing or not finite.
        """
        blocks = [*self.iter_blocks()]
        ids = [each for some, _ in blocks for each in some]
        return ids, np.concatenate([np.empty((0, self.width), np.float32), *(vectors for _, vectors in blocks)])


def is_vector_file(path: Path) -> bool:
    """Return True if a file is a Parquet file with a column `vector`."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return "vector" in pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False


def _check_finite(ids: Sequence[str], vectors: npt.NDArray[Any], remedy: str) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(bad):
        raise InputError(
            f"The vector of {ids[int(bad[0])]!r} holds what is no number, or none of {vectors.dtype}, and so do "
            f"{len(bad) - 1} more: vectors like these cannot be compared. {remedy}"
        )
