"""What training, fine-tuning and answering cost: the work of a model of some size on a number of tokens.

Floating-point operations of a step follow from the shape of the model, and become time by the table of rates.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

from flows.recipes.model_and_tasks import ModelEntry, TaskEntry
from flows.recipes.recipe import Recipe
from flows.run.answers_build import MAX_DOCUMENTS_TOGETHER
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
MASKED_SHARE = 0.15  # of the tokens are predicted from the whole vocabulary
FORWARD_SHARE = 1 / 3  # of a step: without the gradients
MEMORY_PER_TEXT_BYTE = 3  # of memory for a byte of texts that are answered together
CHARACTERS_PER_TOKEN = 4.5  # of labelled rows, for a token


class _ModelSize:
    """The size of a model: its parameters, floating-point operations per token, and memory."""

    def __init__(self, entry: ModelEntry, vocabulary_size: float) -> None:
        self._layers, self._hidden, _, feed_forward = entry.settings.shape
        hidden = self._hidden
        self._body = self._layers * (4 * hidden * hidden + 2 * hidden * feed_forward + 9 * hidden + feed_forward)
        self._head = vocabulary_size * hidden
        self.parameters = self._body + (vocabulary_size + (entry.settings.max_length or 512) + 4) * hidden

    def count_flops(self, length: float, predicted: float = 0.0) -> float:
        """Compute the number of floating-point operations per token in one training step.

        Args:
            length: Number of tokens in each example.
            predicted: Share of the tokens that are predicted, from 0 to 1.
        """
        return 6 * self._body + 6 * predicted * self._head + 12 * self._layers * self._hidden * length

    def compute_memory(self, held: float, predicted: float = 0.0) -> float:
        """Compute the memory that a training process needs, in bytes.

        Args:
            held: Number of tokens that are processed at once.
            predicted: Share of these tokens that are predicted, from 0 to 1.
        """
        activations = held * (self._layers * 34 * self._hidden * 4 + predicted * self._head / self._hidden * 8)
        return TORCH_BYTES + self.parameters * PARAMETER_BYTES + activations


def compute_training_work(
    entry: ModelEntry, recipe: Recipe, vocabulary_size: float, to_train_on: Mapping[str, float]
) -> dict[str, float]:
    """Compute the work needed to train a model, as {unit: amount}.

    The units are "tokens", "flops" (floating-point operations), "steps", "parameters" and "model_bytes" (memory). Every
    example is assumed to have the maximum length of its shard set.

    Args:
        entry: The model and the settings of its training.
        recipe: The recipe. The training phases read its shard sets.
        vocabulary_size: Number of tokens in the vocabulary.
        to_train_on: Number of tokens in each shard set, by name. Needed for phases with a length given in epochs.
    """
    model = _ModelSize(entry, vocabulary_size)
    lengths = {shards.name: shards.settings.length for shards in recipe.shards}
    length = max(lengths[name] for name in entry.shards)
    tokens, steps = 0, 0.0
    for phase, names in zip(entry.training.phase, entry.phases, strict=True):
        held_tokens = sum(to_train_on.get(name, 0.0) for name in names)
        read = count_phase_tokens(phase, [lengths[name] for name in names], held_tokens)
        tokens, steps = tokens + read, steps + (phase.steps or read / phase.batch / length)
    most = max(phase.batch for phase in entry.training.phase)
    held = min(most, entry.training.micro_batch or most) * length
    held = min(held, entry.training.micro_batch_tokens or held)
    work = {"tokens": tokens, "flops": tokens * model.count_flops(length, MASKED_SHARE), "steps": steps}
    return {**work, "parameters": model.parameters, "model_bytes": model.compute_memory(held, 0.2)}


def compute_task_work(entry: TaskEntry, start: ModelEntry, vocabulary_size: float) -> dict[str, float]:
    """Compute the work needed to fine-tune and evaluate the tasks of a `[[task]]` table, as {unit: amount}.

    The units are "documents" (labeled rows), "tokens", "flops" (floating-point operations), "steps", "answered"
    (predicted rows), "pieces" (size of the vocabulary), "parameters" (of all stored models) and "model_bytes" (memory).
    All seeds and the control model are included. The labeled files are read, but not tokenized.

    Args:
        entry: The `[[task]]` table.
        start: The model that is fine-tuned.
        vocabulary_size: Number of tokens in its vocabulary.

    Raises:
        InputError: If a labeled file is missing or cannot be read.
    """
    suite, model = entry.load_suite(), _ModelSize(start, vocabulary_size)
    models = len(suite.seeds) * (2 if entry.settings.control else 1)
    flops = steps = tokens = rows = answered = held = 0.0
    for task in suite.tasks:
        kind = read_task(task.task)
        settings = with_published(task.settings, start.settings, kind.kind)
        length, batch = _find_length(task, start), settings.batch or 1
        epochs = (settings.epochs or 1) * settings.restarts
        learnt = _count_row_tokens(kind, task.training, length)
        judged = [_count_row_tokens(kind, split.file, length, split.labelled) for split in task.splits]
        read = epochs * sum(learnt) + FORWARD_SHARE * (epochs * sum(judged[0]) + sum(map(sum, judged)))
        flops += models * read * model.count_flops(length)
        steps += models * epochs * ceil(len(learnt) / batch)
        tokens, rows = tokens + models * epochs * sum(learnt), rows + len(learnt) + sum(map(len, judged))
        answered += models * sum(map(len, judged))
        held = max(held, min(batch, settings.micro_batch or batch) * length)
    kept = len(suite.tasks) * (1 + models) * model.parameters  # the best, and every one where a killed run goes on
    work = {"documents": rows, "tokens": tokens, "flops": flops, "steps": steps, "answered": answered}
    return {**work, "pieces": vocabulary_size, "parameters": kept, "model_bytes": model.compute_memory(held)}


def compute_answer_work(
    entry: TaskEntry, start: ModelEntry, vocabulary_size: float, texts: TextSizes
) -> dict[str, float]:
    """Compute the work needed to make predictions for documents with a fine-tuned model, as {unit: amount}.

    The units are "documents", "text_bytes", "answered" (size of the predictions, in rows), "tokens", "flops"
    (floating-point operations) and "model_bytes" (memory).

    Args:
        entry: The `[[task]]` table that the model was fine-tuned on.
        start: The model that was fine-tuned.
        vocabulary_size: Number of tokens in its vocabulary.
        texts: Sizes of the documents.
    """
    [task] = entry.load_suite().tasks
    model, length = _ModelSize(start, vocabulary_size), _find_length(task, start)
    tokens = min(texts.documents * length, texts.text_bytes / CHARACTERS_PER_TOKEN)
    row = 4 * start.settings.shape[1] / 40 if entry.settings.answers == "embed" else 1
    together = texts.text_bytes * min(1.0, MAX_DOCUMENTS_TOGETHER / max(1.0, texts.documents))
    return {
        **{"documents": texts.documents, "text_bytes": texts.text_bytes, "answered": row * texts.documents},
        **{"tokens": tokens, "flops": FORWARD_SHARE * tokens * model.count_flops(length)},
        "model_bytes": model.compute_memory(0) + MEMORY_PER_TEXT_BYTE * together,
    }


def _find_length(task: SuiteTask, start: ModelEntry) -> int:
    """Return the maximum number of tokens of an example that a task's model reads.

    Args:
        task: The task, which may set a maximum.
        start: The model that is fine-tuned. Its number of positions is an upper limit.
    """
    return min(task.settings.max_length or read_task(task.task).default_length, start.settings.positions)


def _count_row_tokens(task: Task, file: FileSettings, length: int, labelled: bool = True) -> list[float]:
    """Estimate the number of tokens in each row of a labeled file from the row's number of characters.

    Args:
        task: The task. It determines the columns of the file.
        file: The labeled file.
        length: Maximum number of tokens that the model reads. Longer rows count as this many.
        labelled: False if the file has no labels.

    Raises:
        InputError: If the file cannot be read.
    """
    needed, optional = split_roles(task, labelled)
    rows: Iterator = read_examples(with_format(task, file), RowCounts(), needed, lambda values: values, optional)  # type: ignore[type-arg]
    return [min(length, 2 + len("".join(map(str, values.values()))) / CHARACTERS_PER_TOKEN) for _, values in rows]


def count_phase_tokens(phase: PhaseSettings, lengths: Sequence[int], held: float = 0.0) -> int:
    """Compute the maximum total number of tokens that a training phase reads.

    Args:
        phase: Settings of the phase.
        lengths: Maximum example length of each shard set that the phase reads.
        held: Number of tokens in these shard sets. It is used if the phase's length is given in epochs.
    """
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
