"""Answers by onnxruntime alone, without torch: sequences padded on the right, a few at once.

inputs    input_ids, attention_mask and, where the model has segments, token_type_ids: int64 [batch, length];
          columns, where texts have numbers: float32 [batch, numbers]
output    [batch, ...], or [batch, length, ...] where it is of tokens
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from trainer.tasks.contract import Items, Tokens, check_finite
from trainer.tasks.data import together

Rows = npt.NDArray[Any]

IDS, MASK, SEGMENTS, COLUMNS = "input_ids", "attention_mask", "token_type_ids", "columns"
TOKENS_AT_ONCE = 2048  # with padding; a vocabulary's logits of so many are some hundred MB


def check_installed(*packages: str) -> None:
    """Raise InputError where a package of the extra `onnx` is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"ONNX needs the package {package}, which is not installed here: install the extra `onnx` (pip install "
                "'cloze-pipeline[onnx]')."
            )


def shares(sequences: Sequence[Any], files: int) -> list[Any]:
    """The sequences of an item that each file reads: the second of two all but the first.

    >>> shares("abc", 1), shares("abc", 2)
    (['abc'], ['a', 'bc'])
    """
    return [sequences] if files == 1 else [sequences[:1], sequences[1:]]


class OnnxFiles:
    """The files of a model: one, or one for the first sequence of an item and one for the others.

    pad: id of the padding token; threads: 0 for as many as there are cores
    Raises InputError for a file that onnxruntime cannot read.
    """

    def __init__(self, paths: Sequence[Path], pad: int, threads: int = 0) -> None:
        self.pad, self.sessions = pad, [_session(path, threads) for path in paths]

    def answers(self, items: Items, unit: str) -> list[Rows]:
        """Return what a task reads of each item. Raises InputError for what is not finite. unit: of its rows"""
        answers = dict[int, Rows]()
        for numbers in together(items, TOKENS_AT_ONCE):
            for number, rows in zip(numbers, self.rows([items[number] for number in numbers], unit), strict=True):
                check_finite(rows)
                answers[number] = rows
        return [answers[number] for number in range(len(items))]

    def rows(self, items: Items, unit: str) -> list[Rows]:
        """Return for each item, all of them together, a row for each of its units."""
        rows: list[list[Rows]] = [[] for _ in items]
        for number, session in enumerate(self.sessions):
            read = [shares(item.sequences, len(self.sessions))[number] for item in items]
            columns = [item.targets[COLUMNS] for item in items if COLUMNS in item.targets]
            output = iter(self._output(session, [each for some in read for each in some], columns))
            for own, sequences in zip(rows, read, strict=True):
                whole = [(next(output), len(sequence.ids)) for sequence in sequences]
                own += [row[None] if unit == "sequence" else row[:length] for row, length in whole]
        joined = [np.concatenate(own) for own in rows]
        return [each[item.points] for each, item in zip(joined, items, strict=True)] if unit == "point" else joined

    def _output(self, session: Any, sequences: Sequence[Tokens], columns: Sequence[Rows]) -> Rows:
        """Return the first output of a file for padded sequences. columns: of the items, where they have any"""
        shape = (len(sequences), max(len(sequence.ids) for sequence in sequences))
        filled: dict[str, Rows] = {IDS: np.full(shape, self.pad, np.int64)}
        filled |= {name: np.zeros(shape, np.int64) for name in (MASK, SEGMENTS)}
        for row, sequence in enumerate(sequences):
            own = slice(0, len(sequence.ids))
            filled[IDS][row, own], filled[MASK][row, own] = sequence.ids, 1
            filled[SEGMENTS][row, own] = sequence.segment_ids
        if columns:
            filled[COLUMNS] = np.concatenate(columns)
        names = [each.name for each in session.get_inputs()]
        output: Rows = session.run([session.get_outputs()[0].name], {name: filled[name] for name in names})[0]
        return output


def _session(path: Path, threads: int) -> Any:
    check_installed("onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's classes of errors have no name that is promised
        raise InputError(
            f"{path} cannot be read as ONNX ({str(error).splitlines()[0]}): copy it again, or write the folder again "
            "with `cloze onnx`."
        ) from error
