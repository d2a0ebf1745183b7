"""The restarts of a fine-tuning: which items a step has, what an epoch is worth, and which epoch is the best of all.

Every epoch goes through all training items once, in an order that follows from the seed; its last step is smaller if
the batch does not divide them. The loss of a term is its mean over the whole step, whatever the number of processes
and micro-batches.
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
    """The data of a task.

    task: fitted; training, evaluation: as items of the model; pretrained: the model
    """

    task: Task
    training: EncodedExamples
    evaluation: EncodedExamples
    pretrained: Pretrained
    max_length: int


def plan_training(settings: FinetuneSettings, num_items: int) -> TrainingSettings:
    """Return the settings of all restarts over so many items: an epoch ends with an evaluation and a checkpoint."""
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
    """What the epochs of all restarts came to.

    metric:    the name of the score by which epochs are compared
    restarts:  of each that has begun its seed, the number of the epoch to keep, from 1 (0: none yet), and the scores of
               each epoch
    best:      the restart whose kept epoch is the best of all; -1: none yet
    best_step: the step after that epoch, of all restarts
    """

    tuning: FinetuneSettings
    metric: str
    restarts: list[dict[str, Any]] = field(default_factory=list)
    best: int = -1
    best_step: int = 0

    def add_epoch(self, step: int, epoch: int, scores: Mapping[str, float]) -> None:
        """Add the scores of an epoch of the restart that began last, and keep it if it is the best so far."""
        restart, keeps_last = self.restarts[-1], self.tuning.keep == "last"
        kept = self._compute_kept_worth(restart)
        restart["epochs"].append({"epoch": epoch, **scores})
        if keeps_last or kept is None or self._compute_worth(scores) > kept:
            restart["kept"] = epoch
            others = [self._compute_kept_worth(each) for each in self.restarts[:-1]]
            if keeps_last or all(other is None or self._compute_worth(scores) > other for other in others):
                self.best, self.best_step = len(self.restarts) - 1, step

    def _compute_worth(self, scores: Mapping[str, float]) -> tuple[float, float]:
        """Return what epochs are compared by: the metric, and among equals the loss; the higher the better."""
        return scores[self.metric], -scores["loss"]

    def _compute_kept_worth(self, restart: Mapping[str, Any]) -> tuple[float, float] | None:
        return self._compute_worth(restart["epochs"][restart["kept"] - 1]) if restart["kept"] else None

    def is_patience_out(self) -> bool:
        """Return whether the restart that began last has not improved for too many epochs."""
        restart, patience = self.restarts[-1], self.tuning.patience
        return patience is not None and restart["kept"] > 0 and len(restart["epochs"]) - restart["kept"] >= patience

    @property
    def kept_steps(self) -> frozenset[int]:
        """Return the step whose checkpoint has the best weights of all epochs, if there is one."""
        return frozenset({self.best_step} - {0})

    def to_json(self) -> dict[str, Json]:
        """Return what a checkpoint holds of this."""
        return {"restarts": self.restarts, "best": self.best, "best_step": self.best_step}

    def restore(self, progress: Mapping[str, Any]) -> None:
        """Take up what a checkpoint holds."""
        self.restarts, self.best = progress["restarts"], progress["best"]
        self.best_step = progress["best_step"]


def score_epoch(state: TrainState, data: TaskData, ranks: Ranks) -> dict[str, float]:
    """Return loss and scores on the evaluation examples; the same on every process."""
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
    """Return this process's share of a step in micro-batches, shortest items first: attention likes equal lengths.

    slots: of all epochs, each a place in the order of an epoch's items
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
    """Return items as a micro-batch; one that is void stands in for a process without any."""
    real, batch = [item for item in items if item.sequences], batch_items(items)
    counts = {"sequences": len(real), "tokens": len(batch.ids)}
    of_terms = task.count_targets(real) if real else (0,) * len(task.list_terms())
    return MicroBatch(
        batch=batch.pin() if ranks.device.type == "cuda" else batch,
        guessed=np.empty(0, np.int64),
        counts=np.array([*(counts.get(name, 0) for name in STEP_COUNTS), *of_terms], np.int64),
        tallies=np.empty((0, len(TALLY_NAMES)), np.int64),
    )
