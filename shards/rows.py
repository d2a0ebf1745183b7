"""Rows of token ids: files of JSON lines become an Arrow file of rows of equal length, without store or orchestrator.

    from shards.rows import RowSettings, write_rows
    from tokenizers_train.vocabulary import load_vocabulary

    vocabulary = load_vocabulary(Path("vocabulary"))
    written = write_rows([Path("news.jsonl.gz")], vocabulary, Path("rows.arrow"), RowSettings(length=512))
    print(written.num_rows, written.left_over)

The classical way to feed a masked language model (transformers' example `run_mlm.py` without --line_by_line): every
document whole, framed by the special tokens of its model ([CLS] ... [SEP], <s> ... </s>), one behind the other in
the order of the files and lines, cut every `length` ids. `pa.ipc.open_file` maps the file; so does
`datasets.load_dataset("arrow", data_files=...)`. Its one column is `input_ids`.

What fills no row at the end is left over, or padded, and counted either way: ids = rows * length - padded + left over.
The script itself groups a thousand documents at a time and leaves over what is left of each thousand: `group=1000`
gives its rows, id for id. It writes masks beside them as well, which say nothing more: attention is all ones, and the
special tokens are where their ids are, for no text has these here, whatever is written in it.

Promise: the ids are those of the vocabulary's Hugging Face tokenizer (`rows_plainly` is the definition), the file's
bytes are a function of the lines, the vocabulary and the settings, and the file is there once it is whole.
Cost, in MB/s of CPU time on English novels in documents of 3 KB, two cores that others kept busy: 97 by WordPiece, 38
by byte-level BPE (1.07 and 0.55 by the script; `benchmarks.rows`); four fifths of it is the encoding. An encoder is
made for each call, so that calls may run in threads side by side: 0.01 and 0.16 s. Memory: a block of lines and its
ids.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range
from corpora.text.buffers import text_buffers
from shards.json_columns import text_columns
from shards.rows_kernels import LEFT_OVER, NUM_STATES, PADDED, PLACE, Frame, Ids, end_row, lay_documents
from shards.schema import id_type
from tokenizers_train.encode import Encoder
from tokenizers_train.vocabulary import Vocabulary

COLUMN = "input_ids"
DROP, PAD = "drop", "pad"
MAX_ROW = 1 << 20
BATCH_IDS = 1 << 18  # of a record batch


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """What determines the rows.

    length:    ids in a row, special ones included
    group:     so many documents are laid end to end before a row is ended; None: all of them
    remainder: of the row in which a group ends and that is not full: "drop", or "pad" it with the padding token
    field:     of the JSON object that holds the text
    """

    length: int = 512
    group: int | None = None
    remainder: str = DROP
    field: str = "text"

    def __post_init__(self) -> None:
        check_range("rows.length", self.length, 3, MAX_ROW)
        check_choice("rows.remainder", self.remainder, (DROP, PAD))
        if self.group is not None:
            check_range("rows.group", self.group, 1, 1 << 40)
        if not self.field:
            raise InputError("rows.field is empty: name the field of the JSON objects that holds the text.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsWritten:
    """What became of the documents: num_ids = num_rows * length - padded + left_over.

    num_ids: of the documents, the special tokens around them included
    """

    num_documents: int
    num_ids: int
    num_rows: int
    left_over: int
    padded: int


def write_rows(paths: Sequence[Path], vocabulary: Vocabulary, target: Path, settings: RowSettings) -> RowsWritten:
    """Write the texts of JSON lines as rows of ids into the Arrow IPC file `target`.

    paths: files of JSON lines, in this order; `.gz`, `.zst`, `.bz2` and `.xz` are unpacked on the way
    Raises InputError for a file that cannot be read, a line without a text, or a vocabulary without special tokens.
    """
    if target.resolve() in {path.resolve() for path in paths}:
        raise InputError(f"The rows would be written over {target}, one of the files they are made of: name another.")
    rows = Rows(vocabulary, settings)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        with pa.ipc.new_file(str(unfinished), rows.schema) as sink:
            for path in paths:
                for texts in text_columns(path, settings.field):
                    rows.add(texts)
                    _write(sink, rows.batches())
            _write(sink, rows.last_batches())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows.written


def _write(sink: pa.RecordBatchFileWriter, batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        sink.write_batch(batch)


class Rows:
    """Rows in the making: texts are added, and record batches taken out as they become full."""

    def __init__(self, vocabulary: Vocabulary, settings: RowSettings) -> None:
        self._encoder = Encoder(vocabulary)
        self._frame = frame_of(vocabulary, settings)
        values = id_type(vocabulary.size)
        self.schema = pa.schema([pa.field(COLUMN, pa.list_(values, settings.length), nullable=False)])
        self._batch_ids = max(1, BATCH_IDS // settings.length) * settings.length
        self._state = np.zeros(NUM_STATES, np.int64)
        self._out: Ids = np.empty(2 * self._batch_ids, values.to_pandas_dtype())
        self.written = RowsWritten(num_documents=0, num_ids=0, num_rows=0, left_over=0, padded=0)

    def add(self, texts: pa.Array) -> None:
        """Encode texts and lay them behind those that are there. Take the batches before the next are added."""
        offsets = text_buffers(texts).offsets
        encoded = self._encoder.encode_sentences(texts, offsets[:-1], offsets[1:])
        num_ids = len(encoded.ids) + 2 * len(texts)
        padding = self._frame.length * (2 + len(texts) // self._frame.group) if self._frame.group else 0
        self._make_room(num_ids + padding + self._frame.length)
        lay_documents(encoded.ids, encoded.offsets, self._frame, self._state, self._out)
        self.written = replace(
            self.written,
            num_documents=self.written.num_documents + len(texts),
            num_ids=self.written.num_ids + num_ids,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches that are full. Each is a view, for use before the next texts are added."""
        place, start = int(self._state[PLACE]), 0
        while place - start >= self._batch_ids:
            yield self._batch(start, start + self._batch_ids)
            start += self._batch_ids
        self._out[: place - start] = self._out[start:place]
        self._state[PLACE] = place - start

    def last_batches(self) -> Iterator[pa.RecordBatch]:
        """End the last row; what is there."""
        end_row(self._frame, self._state, self._out)
        left_over, padded = int(self._state[LEFT_OVER]), int(self._state[PADDED])
        self.written = replace(self.written, left_over=left_over, padded=padded)
        yield from self.batches()
        if self._state[PLACE]:
            yield self._batch(0, int(self._state[PLACE]))

    def _batch(self, start: int, stop: int) -> pa.RecordBatch:
        self.written = replace(self.written, num_rows=self.written.num_rows + (stop - start) // self._frame.length)
        values = pa.array(self._out[start:stop])
        return pa.RecordBatch.from_arrays(
            [pa.FixedSizeListArray.from_arrays(values, self._frame.length)], schema=self.schema
        )

    def _make_room(self, wanted: int) -> None:
        place = int(self._state[PLACE])
        if place + wanted > len(self._out):
            larger = np.empty(place + wanted, self._out.dtype)
            larger[:place] = self._out[:place]
            self._out = larger


def frame_of(vocabulary: Vocabulary, settings: RowSettings) -> Frame:
    """What stands around documents and rows. Raises InputError where the vocabulary lacks a special token."""
    roles = ("cls", "sep", "pad") if settings.remainder == PAD else ("cls", "sep")
    ids = vocabulary.special_ids
    missing = [role for role in roles if role not in ids]
    if missing:
        raise InputError(
            f"The vocabulary has no {' and no '.join(missing)} token, and rows are made with the tokens for "
            f"{', '.join(roles)}: choose another vocabulary, or add them to it."
        )
    pad_id = ids["pad"] if settings.remainder == PAD else -1
    return Frame(ids["cls"], ids["sep"], pad_id, settings.length, settings.group or 0)


def rows_plainly(documents: Sequence[Sequence[int]], frame: Frame) -> tuple[list[list[int]], int, int]:
    """What the rows of documents' ids are: the rows, ids left over, and ids padded.

    >>> rows_plainly([[7, 8], [9]], Frame(cls_id=1, sep_id=2, pad_id=-1, length=3, group=0))
    ([[1, 7, 8], [2, 1, 9]], 1, 0)
    """
    rows: list[list[int]] = []
    left_over = padded = 0
    group = frame.group or max(len(documents), 1)
    for first in range(0, len(documents), group):
        framed = ([frame.cls_id, *ids, frame.sep_id] for ids in documents[first : first + group])
        ids = [number for document in framed for number in document]
        cut = [ids[at : at + frame.length] for at in range(0, len(ids), frame.length)]
        missing = frame.length - len(cut[-1])
        if missing and frame.pad_id < 0:
            left_over += len(cut.pop())
        elif missing:
            padded += missing
            cut[-1] += [frame.pad_id] * missing
        rows += cut
    return rows, left_over, padded


def read_rows(path: Path) -> npt.NDArray[Any]:
    """The rows of a file that `write_rows` wrote, in memory: [rows, length] of uint16 or uint32.

    Raises InputError where it is no such file.
    """
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        column = table.column(COLUMN)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise InputError(f"{path} is no file of rows: {error}. Name one that write_rows wrote.") from error
    length = column.type.list_size
    chunks = [chunk.flatten().to_numpy().reshape(-1, length) for chunk in column.chunks]
    empty = np.empty((0, length), column.type.value_type.to_pandas_dtype())
    return np.concatenate([empty, *chunks])
