"""Holds out examples of the training file for evaluation if there is no evaluation file.

The examples are divided into folds of similar size, and one fold is held out. Examples of the same group stay together.
A group has the same value in a given column or, if none is given, comes from the same text, context or document. The
division depends only on the seed and on the names of the groups, not on their order in the file. Cost: a hash and a
number for each example.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xxhash

from corpora.errors import InputError
from corpora.store.randomness import compute_root
from trainer.tasks.data import FileExamples
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.task import Task


def split_held_out(task: Task, file: FileExamples, job: FinetuneJob) -> tuple[list[int], list[int]]:
    """Divide the examples of a file into training examples and examples that are held out for evaluation.

    Args:
        task: The task, which determines the text, context or document that an example comes from.
        file: The examples.
        job: The job with the number of folds, the fold to hold out, and the column of groups.

    Returns:
        The indices of the training examples, and the indices of the held-out examples.

    Raises:
        InputError: If there are fewer groups than folds.
    """
    groups = [
        repr(kept[job.group] if job.group else task.find_source(example))
        for kept, example in zip(file.kept or [{}] * len(file), file.examples, strict=True)
    ]
    folds = assign_folds(groups, job.folds, job.settings.seed)
    if len({*folds}) < job.folds:
        raise InputError(
            f"{file.path} has {len({*groups})} groups of examples, too few for {job.folds} parts, one of which is held "
            "out to judge by: give more examples, fewer --folds, or a file to judge by (--evaluate FILE)."
        )
    learnt = [number for number, fold in enumerate(folds) if fold != job.fold]
    return learnt, [number for number, fold in enumerate(folds) if fold == job.fold]


def assign_folds(groups: Sequence[str], folds: int, seed: int) -> list[int]:
    """Assign each example to a zero-based fold. Examples with the same group get the same fold.

    The groups are assigned in a random order, each to the fold with the fewest examples so far.

    Args:
        groups: The name of each example's group.
        folds: The number of folds.
        seed: The seed of the order.

    >>> sorted(assign_folds(["a", "b", "c", "d"], 2, 42)), len({*assign_folds(["a", "a", "b"], 2, 42)[:2]})
    ([0, 0, 1, 1], 1)
    """
    salt = int(compute_root(seed, "held out"))
    names, of, sizes = np.unique(np.array(groups, object), return_inverse=True, return_counts=True)
    drawn = [xxhash.xxh3_64_intdigest(name.encode(errors="surrogatepass"), salt) for name in names]
    filled, fold_of = [0] * folds, [0] * len(names)
    for group in sorted(range(len(names)), key=drawn.__getitem__):
        least = filled.index(min(filled))
        fold_of[group], filled[least] = least, filled[least] + int(sizes[group])
    return [fold_of[group] for group in of.tolist()]


def select_examples(file: FileExamples, numbers: Sequence[int], judges: bool) -> FileExamples:
    """Return a copy of a file's examples that contains only the selected ones.

    Args:
        file: The examples.
        numbers: The indices of the examples to select.
        judges: True if the selected examples are held out. Unusable records are only counted with the other examples.
    """
    counts, some = file.counts, len(numbers)
    rest = len(file) - some
    counted = (
        replace(counts, given=some, rows=some, unusable={}, dropped=[], first_lines={}, first_places={})
        if judges
        else replace(counts, given=some, held_out=rest)
    )
    return replace(
        file,
        examples=[file.examples[number] for number in numbers],
        lines=[file.lines[number] for number in numbers],
        ids=[file.ids[number] for number in numbers],
        kept=[file.kept[number] for number in numbers] if file.kept else (),
        counts=counted,
    )
