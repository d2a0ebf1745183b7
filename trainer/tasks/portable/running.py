"""Answers by onnxruntime alone, without torch or what reads data: sequences padded on the right, a few at once.

inputs    input_ids, attention_mask and, where the model has segments, token_type_ids: int64 [batch, length];
          columns, where texts have numbers: float32 [batch, numbers]
output    [batch, ...], or [batch, length, ...] where it is of tokens
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError

Sequence32 = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # ids and segments, as `Tokens` has them

IDS, MASK, SEGMENTS, COLUMNS = "input_ids", "attention_mask", "token_type_ids", "columns"
TOKENS_AT_ONCE = 2048  # with padding; a vocabulary's logits of so many are some hundred MB


class OnnxText(NamedTuple):
    """The unit that is answered at once: sequences that are compared, and the numbers with the text, [1, numbers]."""

    sequences: Sequence[Sequence32]
    columns: npt.NDArray[np.float32] | None = None


class Placed(NamedTuple):
    """A sequence with the numbers of its text."""

    ids: npt.NDArray[np.int32]
    segments: npt.NDArray[np.int32]
    columns: npt.NDArray[np.float32] | None


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
    """A file of ONNX, ready to answer. pad: id of the padding token; threads: 0 for as many as there are cores

    Raises InputError for a file that onnxruntime cannot read.
    """

    def __init__(self, path: Path, pad: int, threads: int = 0) -> None:
        onnxruntime = onnxruntime_here()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.pad = pad
        try:
            self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's classes of errors have no name that is promised
            raise InputError(
                f"{path} cannot be read as ONNX ({str(error).splitlines()[0]}): copy it again, or write the folder "
                "again with `cloze onnx`."
            ) from error
        self.names = {each.name for each in self.session.get_inputs()}
        self.first_output = self.session.get_outputs()[0].name

    def rows(self, sequences: Sequence[Placed], per_token: bool) -> list[npt.NDArray[Any]]:
        """Return the row of each sequence; per_token: a row for each of its tokens."""
        order = sorted(range(len(sequences)), key=lambda number: len(sequences[number].ids))
        by_number = dict[int, npt.NDArray[Any]]()
        for some in _together(order, [len(sequence.ids) for sequence in sequences]):
            [rows] = self.session.run([self.first_output], self._padded([sequences[number] for number in some]))
            for number, row in zip(some, rows, strict=True):
                by_number[number] = row[: len(sequences[number].ids)] if per_token else row[None]
        return [by_number[number] for number in range(len(sequences))]

    def _padded(self, sequences: Sequence[Placed]) -> dict[str, npt.NDArray[Any]]:
        shape = (len(sequences), max(len(sequence.ids) for sequence in sequences))
        filled: dict[str, npt.NDArray[Any]] = {IDS: np.full(shape, self.pad, np.int64)}
        filled |= {name: np.zeros(shape, np.int64) for name in (MASK, SEGMENTS)}
        for row, sequence in enumerate(sequences):
            own = slice(0, len(sequence.ids))
            filled[IDS][row, own], filled[MASK][row, own] = sequence.ids, 1
            filled[SEGMENTS][row, own] = sequence.segments
        if COLUMNS in self.names:
            filled[COLUMNS] = np.concatenate([each.columns for each in sequences if each.columns is not None])
        return {name: values for name, values in filled.items() if name in self.names}


def _together(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Group sequences, shortest first, so that padded ones do not have too many tokens.

    >>> _together([0, 1, 2], [10, 1000, 1500])
    [[0, 1], [2]]
    """
    groups = list[list[int]]()
    for number in order:
        if groups and (len(groups[-1]) + 1) * lengths[number] <= TOKENS_AT_ONCE:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def shares(sequences: Sequence[Any], files: int) -> list[Any]:
    """The sequences of a text that each file reads: the second of two all but the first.

    >>> shares("abc", 1), shares("abc", 2)
    (['abc'], ['a', 'bc'])
    """
    return [sequences] if files == 1 else [sequences[:1], sequences[1:]]


class OnnxFiles:
    """The files of a model: one, or one for the first sequence of a text and one for the others."""

    def __init__(self, paths: Sequence[Path], pad: int, threads: int = 0) -> None:
        self.models = [OnnxModel(path, pad, threads) for path in paths]

    def outputs(self, texts: Sequence[OnnxText], per_token: bool) -> list[npt.NDArray[Any]]:
        """Return for each text the rows of its sequences, one after another."""
        answers: list[list[npt.NDArray[Any]]] = [[] for _ in texts]
        for number, model in enumerate(self.models):
            mine = [
                (place, Placed(sequence[0], sequence[1], text.columns))
                for place, text in enumerate(texts)
                for sequence in shares(text.sequences, len(self.models))[number]
            ]
            rows = model.rows([sequence for _, sequence in mine], per_token)
            for (place, _), row in zip(mine, rows, strict=True):
                answers[place].append(row)
        return [np.concatenate(rows or [np.empty(0)]) for rows in answers]
