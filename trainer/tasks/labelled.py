"""Labelled texts as ids and numbers of classes: what a classifier learns, and what it is judged by.

Promise: what became of every row is in the ledger of its table, and how many tokens of long texts were cut off.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Int64s
from corpora.store.ledger import Ledger
from trainer.families.contract import ModelInputs
from trainer.model_settings import ModelSettings
from trainer.tasks.encoding import EncodedTexts, concatenated, encode_texts, open_tokenizer
from trainer.tasks.formats.records import RowCounts
from trainer.tasks.readers import LabelledText, as_number, read_rows
from trainer.tasks.settings import CLASSES, NUMBER, FinetuneJob, TableSettings

USUAL_LENGTH = 128
MOST_LABELS = 1_000  # more are taken for a column that holds no labels
MOST_NUMBERED_CLASSES = 20  # more whole numbers may be scores
ROWS_AT_ONCE = 1_000  # that are tokenised together


# Shapes: N texts.


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTexts:
    """One table as ids. labels: [N], each text's class (int64) or number (float32); ledger: of rows and tokens."""

    texts: EncodedTexts
    labels: Int64s | Float32s
    ledger: Ledger

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is learnt: the names of the classes in their order, none where it is a number; and both tables."""

    names: tuple[str, ...]
    training: LabelledTexts
    evaluation: LabelledTexts


def read_task(job: FinetuneJob, model: ModelSettings, inputs: ModelInputs) -> Task:
    """Both tables, tokenised with the model's own tokenizer. Raises InputError."""
    asked = job.settings.max_length
    if asked is not None and asked > model.positions:
        raise InputError(f"max_length = {asked}, and the model {job.model} reads {model.positions} tokens: lower it.")
    tokenizer = open_tokenizer(Path(job.model), inputs, asked or min(USUAL_LENGTH, model.positions))
    given, numbers = job.settings.labels, job.settings.predict == NUMBER
    texts, labels, ledger = _read_table(job.training, tokenizer, given, numbers)
    if numbers:
        training = LabelledTexts(texts=texts, labels=_as_numbers(labels), ledger=ledger)
        texts, labels, ledger = _read_table(job.evaluation, tokenizer, (), numbers)
        return Task(
            names=(),
            training=training,
            evaluation=LabelledTexts(texts=texts, labels=_as_numbers(labels), ledger=ledger),
        )
    names = given or tuple(sorted({*labels}))
    if not given and not job.settings.predict:
        _check_classes(names, job.training)
    _check_names(names, job.training)
    training = LabelledTexts(texts=texts, labels=_numbered(labels, names), ledger=ledger)
    texts, labels, ledger = _read_table(job.evaluation, tokenizer, names, numbers)
    evaluation = LabelledTexts(texts=texts, labels=_numbered(labels, names), ledger=ledger)
    return Task(names=names, training=training, evaluation=evaluation)


def _read_table(
    table: TableSettings, tokenizer: Tokenizer, known: Sequence[str], numbers: bool
) -> tuple[EncodedTexts, list[str], Ledger]:
    counts = RowCounts()
    pieces, labels = [], []
    for rows in _by_number(read_rows(table, counts, frozenset(known), numbers=numbers)):
        pieces.append(encode_texts(tokenizer, [row.text for row in rows]))
        labels += [row.label for row in rows]
    texts = concatenated(pieces)
    figures = {"tokens": len(texts.ids), "texts_cut": texts.num_cut, "tokens_cut": texts.tokens_cut}
    return texts, labels, Ledger(accounts=(counts.account,), figures=figures).check()


def _by_number(rows: Iterator[LabelledText]) -> Iterator[list[LabelledText]]:
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield some


def _check_classes(names: Sequence[str], table: TableSettings) -> None:
    """Raise InputError where labels may be meant as numbers: all are, and some have fractions, or they are many."""
    found = [as_number(name) for name in names]
    numbers = sorted(number for number in found if number is not None)
    fractions = any(not number.is_integer() for number in numbers)
    if len(numbers) == len(names) and (fractions or len(numbers) > MOST_NUMBERED_CLASSES):
        raise InputError(
            f"{table.path}: the labels are {len(numbers)} different numbers from {numbers[0]:g} to {numbers[-1]:g}. "
            f"Say what they are: predict = {NUMBER!r} learns the number (and judges by Pearson's and Spearman's "
            f"correlation), predict = {CLASSES!r} makes a class of each, as with `--set predict={NUMBER}`."
        )


def _check_names(names: Sequence[str], table: TableSettings) -> None:
    if len(names) < 2:
        raise InputError(
            f"{table.path} has one label alone, {', '.join(names)}: a classifier needs two or more. Is {table.label!r} "
            "the column of the labels?"
        )
    if len(names) > MOST_LABELS:
        raise InputError(
            f"{table.path} has {len(names)} different labels, and {MOST_LABELS} are the most: is {table.label!r} the "
            "column of the labels?"
        )


def _as_numbers(labels: Sequence[str]) -> Float32s:
    return np.array([as_number(label) for label in labels], np.float32)


def _numbered(labels: Sequence[str], names: Sequence[str]) -> Int64s:
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[label] for label in labels], np.int64)
