"""Answers by onnxruntime alone, without torch or what reads data: sequences padded on the right, a few at once.

inputs    input_ids, attention_mask and, where the model has segments, token_type_ids: int64 [batch, length]
output    [batch, ...], or [batch, length, ...] where it is of tokens
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError

Sequence32 = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # ids and segments, as `Tokens` has them

IDS, MASK, SEGMENTS = "input_ids", "attention_mask", "token_type_ids"
ROWS_AT_ONCE = 16


def onnxruntime_here() -> Any:
    """The library. Raises InputError where it is not installed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(
            "ONNX needs packages that are not installed here: install the extra `onnx` (pip install "
            "'cloze-pipeline[onnx]')."
        ) from error
    return onnxruntime


class OnnxModel:
    """A file of ONNX, ready to answer. pad: id of the padding token; threads: 0 for as many as there are cores"""

    def __init__(self, path: Path, pad: int, threads: int = 0) -> None:
        onnxruntime = onnxruntime_here()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.pad = pad
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = {each.name for each in self.session.get_inputs()}

    def outputs(self, sequences: Sequence[Sequence32], per_token: bool) -> list[npt.NDArray[Any]]:
        """Of each sequence its row; per_token: a row for each of its tokens."""
        order = sorted(range(len(sequences)), key=lambda number: len(sequences[number][0]))
        found = dict[int, npt.NDArray[Any]]()
        for first in range(0, len(order), ROWS_AT_ONCE):
            some = order[first : first + ROWS_AT_ONCE]
            [rows] = self.session.run(None, self._padded([sequences[number] for number in some]))
            for number, row in zip(some, rows, strict=True):
                found[number] = row[: len(sequences[number][0])] if per_token else row[None]
        return [found[number] for number in range(len(sequences))]

    def _padded(self, sequences: Sequence[Sequence32]) -> dict[str, npt.NDArray[np.int64]]:
        shape = (len(sequences), max(len(ids) for ids, _ in sequences))
        filled = {IDS: np.full(shape, self.pad, np.int64)}
        filled |= {name: np.zeros(shape, np.int64) for name in (MASK, SEGMENTS)}
        for row, (ids, segments) in enumerate(sequences):
            there = slice(0, len(ids))
            filled[IDS][row, there], filled[MASK][row, there] = ids, 1
            filled[SEGMENTS][row, there] = segments
        return {name: values for name, values in filled.items() if name in self.names}
