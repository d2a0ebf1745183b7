"""From the outputs of an ONNX file to what a task reads, by numpy alone: all but products of matrices over tokens.

    tags of a chain        the best tags of a sentence (Viterbi), by the scores of the chain
    tags after an LSTM     the LSTM over the words of a sentence, and the matrix after it
    classes of a pair      a matrix over (u, v, |u - v|) of two vectors
    next words             what each token costs, of its logits

Promise: equal to what our models answer (float32: up to 1e-4; the same tags). Cost: a sentence of L words with C tags
takes L x C x C, an LSTM 8 L x size x (width + size); an ONNX file could hold neither without the sentences' bounds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Float32s, Int64s
from trainer.tasks.contract import Task, TaskItem
from trainer.tasks.kinds.next_word import NEXT, NextTask
from trainer.tasks.kinds.tags import CHAINS, INNER, TagsTask
from trainer.tasks.kinds.texts import COLUMNS
from trainer.tasks.kinds.vectors import VectorTask
from trainer.tasks.labels.tag_schemes import may_follow
from trainer.tasks.portable.running import OnnxFiles, OnnxText
from trainer.tasks.scores.checks import finite

# Shapes in the names of arrays: P points, L points of a sentence, W width, C tags or classes, V vocabulary, H width of
# a text's vector, N texts of an item.

ITEMS_AT_ONCE = 64
NEVER = np.float32(-1e4)  # the score of what is forbidden

Weights = Mapping[str, Float32s]


def needed_weights(task: Task | None) -> tuple[str, ...]:
    """Return the beginnings of the names of parameters that are not in an ONNX file."""
    if isinstance(task, TagsTask):
        return (*(("lstm.", "token_head.") if task.depth else ()), *(("chain.",) if task.crf else ()))
    return ("pair_head.",) if isinstance(task, VectorTask) and task.num_outputs else ()


def text_of(item: TaskItem) -> OnnxText:
    """An item as a file of ONNX reads it."""
    return OnnxText(item.sequences, item.targets.get(COLUMNS))


def rows_of(files: OnnxFiles, unit: str, items: Sequence[TaskItem]) -> list[npt.NDArray[Any]]:
    """Return the outputs of files for items: for each a row for each of its units."""
    rows = files.outputs([text_of(item) for item in items], per_token=unit != "sequence")
    if unit != "point":
        return rows
    return [each[item.points] for each, item in zip(rows, items, strict=True)]


def onnx_answers(files: OnnxFiles, task: Task, items: Sequence[TaskItem], weights: Weights) -> list[npt.NDArray[Any]]:
    """Return what a task reads of each item. weights: of `needed_weights`. Raises InputError for what is not finite"""
    order = sorted(range(len(items)), key=lambda number: items[number].num_tokens)
    answers = dict[int, npt.NDArray[Any]]()
    for first in range(0, len(order), ITEMS_AT_ONCE):
        numbers = order[first : first + ITEMS_AT_ONCE]
        some = [items[number] for number in numbers]
        for number, item, rows in zip(numbers, some, rows_of(files, task.unit, some), strict=True):
            finite(rows, "answers of the model")
            answers[number] = answer_of(task, rows, item, weights)
    return [answers[number] for number in range(len(items))]


def answer_of(task: Task, rows: npt.NDArray[Any], item: TaskItem, weights: Weights) -> npt.NDArray[Any]:
    """Return what a task reads of the rows of an item."""
    if isinstance(task, TagsTask):
        return _tags(task, rows, item, weights)
    if isinstance(task, NextTask):
        return costs(rows, item.targets[NEXT.name])
    if isinstance(task, VectorTask) and task.num_outputs:
        return _with_classes(rows, weights["pair_head.weight"])
    return rows


def costs(logits_PV: Float32s, wanted_P: Int64s) -> Float32s:
    """Return the cost of each token, and whether it is the most probable one: float32 [P, 2]."""
    highest_P1 = logits_PV.max(-1, keepdims=True)
    logs_P = np.log(np.exp(logits_PV - highest_P1).sum(-1)) + highest_P1[:, 0]
    said_P = np.take_along_axis(logits_PV, wanted_P[:, None], 1)[:, 0]
    return np.stack([logs_P - said_P, (logits_PV.argmax(-1) == wanted_P)], -1).astype(np.float32)


def _with_classes(vectors_NH: Float32s, matrix: Float32s) -> Float32s:
    """Return the vectors, each followed by the logits of the first two texts: [N, H + C]."""
    first, second = vectors_NH[:2]
    logits_C = np.concatenate([first, second, np.abs(first - second)]) @ matrix.T
    return np.concatenate([vectors_NH, np.broadcast_to(logits_C, (len(vectors_NH), len(logits_C)))], 1)


# Tags.


def _tags(task: TagsTask, rows_PW: Float32s, item: TaskItem, weights: Weights) -> npt.NDArray[Any]:
    """Return logits [P, C]; with a chain the tags themselves, int64 [P]."""
    cuts = np.cumsum(item.targets[CHAINS])[:-1]
    sentences = np.split(rows_PW, cuts)
    if task.depth:
        outputs = [lstm(words_LW, weights, task.depth) for words_LW in sentences]
        matrix, bias = weights["token_head.decision.weight"], weights["token_head.decision.bias"]
        sentences = [words_LW @ matrix.T + bias for words_LW in outputs]
    if not task.crf:
        return np.concatenate(sentences)
    chain = _chain(task, weights)
    return np.concatenate(
        [best_tags(each, chain, inner) for each, inner in zip(sentences, item.targets[INNER], strict=True)]
    )


def _chain(task: TagsTask, weights: Weights) -> tuple[Float32s, Float32s, Float32s]:
    """Return the scores of first tags, of last ones, and of neighbors; what is forbidden has next to none."""
    first, last, pairs = (weights[f"chain.{name}"] for name in ("start", "end", "transitions"))
    if not task.constrained:
        return first, last, pairs
    labels, scheme = task.labels, task.scheme
    begins = np.array([may_follow(None, label, scheme) for label in labels])
    ends = np.array([may_follow(label, None, scheme) for label in labels])
    follows = np.array([[may_follow(label, after, scheme) for after in labels] for label in labels])
    return np.where(begins, first, NEVER), np.where(ends, last, NEVER), np.where(follows, pairs, NEVER)


def best_tags(emissions_LC: Float32s, chain: tuple[Float32s, Float32s, Float32s], inner: Sequence[bool]) -> Int64s:
    """Return the tags of highest score of a sentence, by Viterbi's algorithm: int64 [L].

    chain: scores of first tags, last tags and neighbors; inner: whether it continues before, and after
    """
    first_C, last_C, pairs_CC = chain
    best_C = emissions_LC[0] + (0 if inner[0] else first_C)
    came_from = list[Int64s]()
    for emitted_C in emissions_LC[1:]:
        scores_CC = best_C[:, None] + pairs_CC
        came_from.append(scores_CC.argmax(0))
        best_C = scores_CC.max(0) + emitted_C
    tags = [int((best_C + (0 if inner[1] else last_C)).argmax())]
    for from_C in reversed(came_from):
        tags.append(int(from_C[tags[-1]]))
    return np.array(tags[::-1], np.int64)


def lstm(words_LW: Float32s, weights: Weights, layers: int) -> Float32s:
    """Layers that read a sentence from both sides: [L, 2 x size]."""
    for layer in range(layers):
        ahead = _read_on(words_LW, weights, f"l{layer}")
        back = _read_on(words_LW[::-1], weights, f"l{layer}_reverse")
        words_LW = np.concatenate([ahead, back[::-1]], -1)
    return words_LW


def _read_on(words_LW: Float32s, weights: Weights, name: str) -> Float32s:
    """Return one direction: [L, size]. Gates are in torch's order: input, forget, cell, output."""
    matrix, again, bias, more = (
        weights[f"lstm.lstm.{each}_{name}"] for each in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    given = words_LW @ matrix.T + bias + more
    hidden = cell = np.zeros(again.shape[1], np.float32)
    every = list[Float32s]()
    for row in given:
        let_in, keep, new, out = np.split(row + again @ hidden, 4)
        cell = _sigmoid(keep) * cell + _sigmoid(let_in) * np.tanh(new)
        hidden = _sigmoid(out) * np.tanh(cell)
        every.append(hidden)
    return np.stack(every)


def _sigmoid(values: Float32s) -> Float32s:
    """Return the sigmoid by tanh, which does not overflow."""
    activated: Float32s = 0.5 * (1 + np.tanh(0.5 * values))
    return activated
