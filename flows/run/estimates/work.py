"""What training, fine-tuning and answering take: the work of a model of some size on so many tokens.

Floating-point operations of a step are counted by the shape of the model, and become time by the table of rates.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

from flows.recipes.model_and_tasks import ModelEntry, TaskEntry
from flows.recipes.recipe import Recipe
from flows.run.answers_build import TOGETHER
from flows.run.estimates.text_sizes import TextSizes
from trainer.settings.phases import PhaseSettings, parse_tokens
from trainer.tasks.data import split_roles, with_format
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.registry import read_task
from trainer.tasks.settings import with_published
from trainer.tasks.suites.suite import SuiteTask
from trainer.tasks.task import Task

PARAMETER_BYTES = 16  # weights, gradients, two moments, of 4 bytes
TORCH_BYTES = 600_000_000
MASKED = 0.15  # of the tokens are predicted from the whole vocabulary
FORWARD = 1 / 3  # of a step: without the gradients
TEXTS_BYTES = 3  # of memory for a byte of texts that are answered together
CHARACTERS = 4.5  # of labelled rows, for a token


class _Model:
    """The size of a model: its parameters, and the floating-point operations of a step for a token of its body."""

    def __init__(self, entry: ModelEntry, vocabulary_size: float) -> None:
        self._layers, self._hidden, _, feed_forward = entry.settings.shape
        hidden = self._hidden
        self._body = self._layers * (4 * hidden * hidden + 2 * hidden * feed_forward + 9 * hidden + feed_forward)
        self._head = vocabulary_size * hidden
        self.parameters = self._body + (vocabulary_size + (entry.settings.max_length or 512) + 4) * hidden

    def flops(self, length: float, predicted: float = 0.0) -> float:
        """Return the operations for a token. length: of its example; predicted: share of the tokens"""
        return 6 * self._body + 6 * predicted * self._head + 12 * self._layers * self._hidden * length

    def memory(self, held: float, predicted: float = 0.0) -> float:
        """Return the memory of a process that learns. held: tokens at once"""
        activations = held * (self._layers * 34 * self._hidden * 4 + predicted * self._head / self._hidden * 8)
        return TORCH_BYTES + self.parameters * PARAMETER_BYTES + activations


def training_of(
    entry: ModelEntry, recipe: Recipe, vocabulary_size: float, to_train_on: Mapping[str, float]
) -> dict[str, float]:
    """Return what a model has to work on, in the units of the rates; every example is as long as shards allow.

    to_train_on: tokens of each shard set, for phases whose length is said in epochs
    """
    model = _Model(entry, vocabulary_size)
    lengths = {shards.name: shards.settings.length for shards in recipe.shards}
    length = max(lengths[name] for name in entry.shards)
    tokens, steps = 0, 0.0
    for phase, names in zip(entry.training.phase, entry.phases, strict=True):
        read = tokens_of(phase, [lengths[name] for name in names], sum(to_train_on.get(name, 0.0) for name in names))
        tokens, steps = tokens + read, steps + (phase.steps or read / phase.batch / length)
    most = max(phase.batch for phase in entry.training.phase)
    held = min(most, entry.training.micro_batch or most) * length
    held = min(held, entry.training.micro_batch_tokens or held)
    work = {"tokens": tokens, "flops": tokens * model.flops(length, MASKED), "steps": steps}
    return {**work, "parameters": model.parameters, "model_bytes": model.memory(held, 0.2)}


def tasks_of(entry: TaskEntry, begins: ModelEntry, vocabulary_size: float) -> dict[str, float]:
    """Return the work of learning the tasks of a table from every seed, and of answering their splits.

    The labelled files are read, but not encoded. Raises InputError if one is missing, or cannot be read.
    """
    suite, model = entry.load_suite(), _Model(begins, vocabulary_size)
    models = len(suite.seeds) * (2 if entry.settings.control else 1)
    flops = steps = tokens = rows = answered = held = 0.0
    for task in suite.tasks:
        kind = read_task(task.task)
        settings = with_published(task.settings, begins.settings, kind.kind)
        length, epochs, batch = _length(task, begins), (settings.epochs or 1) * settings.restarts, settings.batch or 1
        learnt = _tokens_of_rows(kind, task.training, length)
        judged = [_tokens_of_rows(kind, split.file, length, split.labelled) for split in task.splits]
        read = epochs * sum(learnt) + FORWARD * (epochs * sum(judged[0]) + sum(map(sum, judged)))
        flops, steps = flops + models * read * model.flops(length), steps + models * epochs * ceil(len(learnt) / batch)
        tokens, rows = tokens + models * epochs * sum(learnt), rows + len(learnt) + sum(map(len, judged))
        answered += models * sum(map(len, judged))
        held = max(held, min(batch, settings.micro_batch or batch) * length)
    kept = len(suite.tasks) * (1 + models) * model.parameters  # the best, and every one where a killed run goes on
    work = {"documents": rows, "tokens": tokens, "flops": flops, "steps": steps, "answered": answered}
    return {**work, "pieces": vocabulary_size, "parameters": kept, "model_bytes": model.memory(held)}


def answers_of(entry: TaskEntry, begins: ModelEntry, vocabulary_size: float, texts: TextSizes) -> dict[str, float]:
    """Return the work of answering documents with the model of a task. texts: of these documents"""
    [task] = entry.load_suite().tasks
    model, length = _Model(begins, vocabulary_size), _length(task, begins)
    tokens = min(texts.documents * length, texts.text_bytes / CHARACTERS)
    row = 4 * begins.settings.shape[1] / 40 if entry.settings.answers == "embed" else 1
    together = texts.text_bytes * min(1.0, TOGETHER / max(1.0, texts.documents))
    return {
        **{"documents": texts.documents, "text_bytes": texts.text_bytes, "answered": row * texts.documents},
        **{"tokens": tokens, "flops": FORWARD * tokens * model.flops(length)},
        "model_bytes": model.memory(0) + TEXTS_BYTES * together,
    }


def _length(task: SuiteTask, begins: ModelEntry) -> int:
    """Return how many tokens of an example are read."""
    return min(task.settings.max_length or read_task(task.task).usual_length, begins.settings.positions)


def _tokens_of_rows(task: Task, file: FileSettings, length: int, labelled: bool = True) -> list[float]:
    """Return about how many tokens each row of a labelled file has. Raises InputError."""
    needed, optional = split_roles(task, labelled)
    rows: Iterator = read_examples(with_format(task, file), RowCounts(), needed, lambda values: values, optional)  # type: ignore[type-arg]
    return [min(length, 2 + len("".join(map(str, values.values()))) / CHARACTERS) for _, values in rows]


def tokens_of(phase: PhaseSettings, lengths: Sequence[int], held: float = 0.0) -> int:
    """Return the most tokens that a phase reads. lengths: the longest example of each shard set; held: their tokens"""
    if phase.tokens is not None:
        return parse_tokens("training.phase.tokens", phase.tokens)
    if not phase.steps:
        return sum(phase.quotas) or round((phase.epochs or 0) * held)
    slots = [Fraction(tokens, length) for tokens, length in zip(phase.quotas, lengths, strict=False)]
    parts = slots or phase.weights or (Fraction(1),)
    mean = sum((part * length for part, length in zip(parts, lengths, strict=True)), Fraction()) / sum(parts)
    ramp = phase.batch_ramp
    if ramp is not None and ramp.tokens is not None:  # how many steps it has is not known yet
        return round(phase.steps * phase.batch * mean)
    return round(phase.slots * mean)
