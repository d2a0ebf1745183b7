"""One course of fine-tuning, from one seed: steps, and after each epoch what the evaluation examples say.

Every epoch goes through all training items once, in an order that is a function of the seed; its last step is smaller
where the batch does not divide them. The loss of a term is its mean over the whole step, whatever the number of
processes and micro-batches. Dropout's numbers follow from seed, step and process, so a course goes on anywhere.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from corpora.errors import InputError
from corpora.store.randomness import stream
from shards.reading.loader import TALLIES
from shards.reading.order import cut, examples_at, share
from trainer.families.contract import ModelInputs
from trainer.settings.model import ModelSettings
from trainer.settings.rates import learning_rate
from trainer.settings.training import TrainingSettings
from trainer.tasks.batching import batch_of_items, void
from trainer.tasks.building import build_task_model, freeze
from trainer.tasks.contract import Prediction, Task, TaskItem
from trainer.tasks.data import EncodedExamples
from trainer.tasks.heads.task_model import TaskModel, answers_of
from trainer.tasks.packing import shortest_first
from trainer.tasks.saving import kept_on_cpu
from trainer.tasks.settings import FinetuneSettings
from trainer.training.checkpoint import whole_state
from trainer.training.feed import STEP_COUNTS, MicroBatch, Step, counted
from trainer.training.learner import Learner, StepOutcome
from trainer.training.lines import named
from trainer.training.parallel import Ranks


class Course:
    """A course, on one of its processes."""

    def __init__(
        self,
        task: Task,
        settings: FinetuneSettings,
        training: TrainingSettings,
        model: tuple[ModelSettings, ModelInputs, dict[str, Tensor]],
        ranks: Ranks,
        seed: int,
    ) -> None:
        """training: the same without "auto", for all its steps; model: settings, inputs, and the pre-trained state"""
        self.task, self.settings, self.ranks, self.seed = task, settings, ranks, seed
        self.training = replace(training, seed=seed)
        torch.manual_seed(seed)
        self.model: TaskModel = build_task_model(task, *model)
        freeze(self.model, settings.freeze)
        self.learner = Learner.of(self.model, self.training, ranks)

    def steps_of(self, items: Sequence[TaskItem]) -> int:
        """Steps of an epoch."""
        return -(-len(items) // self.training.phase[0].batch)

    def learn(self, number: int, items: Sequence[TaskItem]) -> tuple[Step, StepOutcome, float]:
        """One step, by its number from 0; what it read, what it came to, and its rate."""
        epoch, within = divmod(number, self.steps_of(items))
        batch, size = self.training.phase[0].batch, len(items)
        slots = range(epoch * size + within * batch, epoch * size + min((within + 1) * batch, size))
        torch.manual_seed(int(stream(self.seed, "dropout", number, self.ranks.rank)))
        rate = learning_rate(number, self.training)
        step = counted(number + 1, self._micro_batches(slots, items), self.ranks)
        return step, self.learner.learn(step, rate), rate

    def _micro_batches(self, slots: range, items: Sequence[TaskItem]) -> list[MicroBatch]:
        """The share of this process, shortest first: runs of one length are what attention does best."""
        mine = share(slots, self.ranks.rank, self.ranks.count)
        places = np.arange(mine.start, mine.stop, dtype=np.int64)
        examples = shortest_first(items, examples_at(places, len(items), self.seed))
        largest = -(-len(slots) // self.ranks.count)
        size = min(self.training.micro_batch or largest, largest)
        pieces = cut(range(len(examples)), size, -(-largest // size))
        return [self._micro_batch([items[examples[place]] for place in piece] or [void(items[0])]) for piece in pieces]

    def _micro_batch(self, items: Sequence[TaskItem]) -> MicroBatch:
        real = [item for item in items if item.sequences]
        batch = batch_of_items(items)
        counts = {"sequences": len(real), "tokens": len(batch.ids)}
        terms = self.task.counts(real) if real else (0,) * len(self.task.terms())
        return MicroBatch(
            batch=batch.pinned() if self.ranks.device.type == "cuda" else batch,
            guessed=np.empty(0, np.int64),
            counts=np.array([*(counts.get(name, 0) for name in STEP_COUNTS), *terms], np.int64),
            tallies=np.empty((0, len(TALLIES)), np.int64),
        )

    def said(self, step: Step, outcome: StepOutcome) -> dict[str, float]:
        """What a step came to, over all processes; the loss, and of each term its mean where there are several."""
        sums = self.ranks.sum(outcome.sums).tolist()
        divisors, terms = step.divisors.tolist(), self.task.terms()
        means = {
            term.name: (loss / by, right / by) for term, (loss, right), by in zip(terms, sums, divisors, strict=True)
        }
        told = {"loss": sum(term.weight * means[term.name][0] for term in terms)}
        for term in terms:
            told |= {f"{term.name}_loss": means[term.name][0]} if len(terms) > 1 else {}
            told |= (
                {"accuracy" if len(terms) == 1 else f"{term.name}_accuracy": means[term.name][1]}
                if term.has_rights
                else {}
            )
        return told

    @torch.no_grad()
    def judge(self, encoded: EncodedExamples) -> tuple[dict[str, float], list[Prediction]]:
        """Loss and scores on labelled examples, and what is said of each; the same on every process."""
        answers, sums = answers_of(self.model, self.task, encoded.items, self.ranks, judging=True)
        predictions = self.task.predictions(encoded.examples, encoded.items, answers)
        divisors = self.task.counts(encoded.items)
        losses = [
            term.weight * loss / max(by, 1) for term, loss, by in zip(self.task.terms(), sums, divisors, strict=True)
        ]
        return {"loss": sum(losses), **self.task.scores(encoded.examples, predictions)}, predictions

    def weights(self) -> dict[str, Tensor]:
        """All of them in main memory, on the first process. All must call it."""
        return kept_on_cpu(whole_state(self.model))


def check_finite(step: int, loss: float, norm: float) -> None:
    """Raise InputError where a course has diverged."""
    if not np.isfinite([loss, norm]).all():
        raise InputError(
            f"At step {step} the loss is {loss:.4g} and the gradient's norm {norm:.4g}: it has diverged. Lower "
            "learning_rate, raise warmup, or set clip_norm."
        )


def counts_of(step: Step) -> dict[str, int]:
    """What a step read, by name."""
    return named(step.counts.tolist())
