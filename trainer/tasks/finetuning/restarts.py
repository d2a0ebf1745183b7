"""The restarts of a fine-tuning run: the items of each step, the scores of each epoch, and the best epoch of all.

Every epoch goes through all training items once, in an order that depends on the seed. Its last step is smaller if the
number of items is not a multiple of the batch size. The loss of a term is its mean over the whole step, regardless of
the number of processes and micro-batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from corpora.generic_types import Json
from shards.reading.loader import TALLY_NAMES
from shards.reading.order import find_global_examples, split_slots, take_rank_share
from trainer.huggingface.checkpoints import Pretrained
from trainer.learn import STEP_COUNTS, MicroBatch, TrainState
from trainer.ranks import FIRST_SECONDS, Ranks
from trainer.settings.training import TrainingSettings
from trainer.tasks.data import EncodedExamples, PackedItems
from trainer.tasks.heads.task_model import TaskModel, batch_items, build_empty_item, compute_answers, sort_by_length
from trainer.tasks.settings import FinetuneSettings
from trainer.tasks.task import Task, TaskItem

SAVE_MINUTES = 5.0  # after which a run is written down within an epoch


class TaskData(NamedTuple):
    """The data of a fine-tuning run: the fitted task, encoded examples for training and evaluation, and the model."""

    task: Task
    training: EncodedExamples
    evaluation: EncodedExamples
    pretrained: Pretrained
    max_length: int


def plan_training(settings: FinetuneSettings, num_items: int) -> TrainingSettings:
    """Build the training settings for all restarts, with an evaluation and a checkpoint after each epoch.

    Args:
        settings: The settings of fine-tuning.
        num_items: The number of training items.
    """
    steps_per_epoch = -(-num_items // (settings.batch or 1))
    return replace(
        settings.to_training_settings(steps_per_epoch * (settings.epochs or 1)),
        evaluate_every=steps_per_epoch,
        checkpoint_every=steps_per_epoch,
        checkpoint_minutes=SAVE_MINUTES,
        async_checkpoints=False,
        timeout_seconds=FIRST_SECONDS,
    )


@dataclass(kw_only=True)
class EpochScores:
    """The scores of the epochs of all restarts (runs from different seeds), with the best epoch.

    tuning:    the settings of fine-tuning
    metric:    the score that is used to choose the best epoch
    restarts:  a dictionary for each restart so far: `seed`, `kept` (its best epoch, counted from 1, or 0 if there is
               none yet), and `epochs` (the scores of each epoch)
    best:      the index of the restart with the overall best epoch; -1 if there is none yet
    best_step: the step after the overall best epoch, counted across restarts; 0 if there is none yet
    """

    tuning: FinetuneSettings
    metric: str
    restarts: list[dict[str, Any]] = field(default_factory=list)
    best: int = -1
    best_step: int = 0

    def add_epoch(self, step: int, epoch: int, scores: Mapping[str, float]) -> None:
        """Add the scores of an epoch of the latest restart, and record the epoch if it is the best so far.

        Args:
            step: The step after the epoch, counted across restarts.
            epoch: The epoch, counted from 1.
            scores: The scores of the epoch, including `loss`.
        """
        restart, keeps_last = self.restarts[-1], self.tuning.keep == "last"
        kept = self._compute_kept_worth(restart)
        restart["epochs"].append({"epoch": epoch, **scores})
        if keeps_last or kept is None or self._compute_worth(scores) > kept:
            restart["kept"] = epoch
            others = [self._compute_kept_worth(each) for each in self.restarts[:-1]]
            if keeps_last or all(other is None or self._compute_worth(scores) > other for other in others):
                self.best, self.best_step = len(self.restarts) - 1, step

    def _compute_worth(self, scores: Mapping[str, float]) -> tuple[float, float]:
        """Return the two values used to choose the best epoch: the metric, then the negative loss. Higher is better."""
        return scores[self.metric], -scores["loss"]

    def _compute_kept_worth(self, restart: Mapping[str, Any]) -> tuple[float, float] | None:
        return self._compute_worth(restart["epochs"][restart["kept"] - 1]) if restart["kept"] else None

    def is_patience_out(self) -> bool:
        """Return True if the latest restart has not improved for `patience` epochs. Without patience, return False."""
        restart, patience = self.restarts[-1], self.tuning.patience
        return patience is not None and restart["kept"] > 0 and len(restart["epochs"]) - restart["kept"] >= patience

    @property
    def kept_steps(self) -> frozenset[int]:
        """The step of the checkpoint to keep, after the overall best epoch; empty if there is none yet."""
        return frozenset({self.best_step} - {0})

    def to_json(self) -> dict[str, Json]:
        """Convert the scores of all epochs to a dictionary for a checkpoint.

        The keys are `restarts`, `best` and `best_step`.
        """
        return {"restarts": self.restarts, "best": self.best, "best_step": self.best_step}

    def restore(self, progress: Mapping[str, Any]) -> None:
        """Restore the scores of all epochs from a dictionary that `to_json` returned."""
        self.restarts, self.best = progress["restarts"], progress["best"]
        self.best_step = progress["best_step"]


def score_epoch(state: TrainState, data: TaskData, ranks: Ranks) -> dict[str, float]:
    """Compute the loss (as `loss`) and the scores of a model on the evaluation examples, by name.

    All processes must call this function, and all get the same values.

    Args:
        state: The model.
        data: The task and its encoded examples.
        ranks: The processes that share the work.
    """
    assert isinstance(state.model, TaskModel)
    task, encoded = data.task, data.evaluation
    answers, sums = compute_answers(state.model, task, encoded.items, ranks, judging=True)
    predictions = task.make_predictions(encoded.examples, encoded.items, answers)
    divisors = task.count_targets(encoded.items)
    losses = [term.weight * loss / max(by, 1) for term, loss, by in zip(task.list_terms(), sums, divisors, strict=True)]
    return {"loss": sum(losses), **task.compute_scores(encoded.examples, predictions)}


def cut_slots(
    slots: range, items: PackedItems, task: Task, seed: int, micro_batch: int | None, ranks: Ranks
) -> list[MicroBatch]:
    """Split this process's share of a step into micro-batches, with the shortest items first.

    Args:
        slots: The positions of the step's items in the training order, counted across epochs.
        items: All training items.
        task: The task.
        seed: The seed of the training order.
        micro_batch: The maximum number of items of a micro-batch; None to put the whole share into one micro-batch.
        ranks: The processes that share the step. All get the same number of micro-batches.
    """
    mine = take_rank_share(slots, ranks.rank, ranks.count)
    places = np.arange(mine.start, mine.stop, dtype=np.int64)
    examples = sort_by_length(items, find_global_examples(places, len(items), seed))
    largest = -(-len(slots) // ranks.count)  # of any process: all have as many micro-batches
    size = min(micro_batch or largest, largest)
    pieces = split_slots(range(len(examples)), size, -(-largest // size))
    return [
        pack_items([items[examples[at]] for at in piece] or [build_empty_item(items[0])], task, ranks)
        for piece in pieces
    ]


def pack_items(items: Sequence[TaskItem], task: Task, ranks: Ranks) -> MicroBatch:
    """Build a micro-batch from items. A process without a share of the step passes a single empty item.

    `task` counts the targets of each loss term, and `ranks` describes this process.
    """
    real, batch = [item for item in items if item.sequences], batch_items(items)
    counts = {"sequences": len(real), "tokens": len(batch.ids)}
    of_terms = task.count_targets(real) if real else (0,) * len(task.list_terms())
    return MicroBatch(
        batch=batch.pin() if ranks.device.type == "cuda" else batch,
        guessed=np.empty(0, np.int64),
        counts=np.array([*(counts.get(name, 0) for name in STEP_COUNTS), *of_terms], np.int64),
        tallies=np.empty((0, len(TALLY_NAMES)), np.int64),
    )
