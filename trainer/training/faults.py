"""What torch raises that is no fault of the program: as a paragraph that says which setting mends it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from corpora.errors import InputError
from trainer.settings.training import TrainingSettings

OF_PROCESSOR = "can't allocate memory"  # how torch's allocator of main memory says that there is none
NOT_DETERMINISTIC = "does not have a deterministic implementation"


@contextmanager
def mendable(settings: TrainingSettings, processes: int, device: str) -> Iterator[None]:
    """What a setting mends is an InputError for the time of the block: no memory left, no deterministic algorithm."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        said = str(error)
        if isinstance(error, torch.OutOfMemoryError) or OF_PROCESSOR in said:
            raise too_much(settings, processes, device) from error
        if NOT_DETERMINISTIC in said:
            raise not_deterministic(said) from error
        raise


def too_much(settings: TrainingSettings, processes: int, device: str) -> InputError:
    """What to lower: what is held at once first, then what is kept for the backward pass, then the weights."""
    remedies = [smaller(settings, processes)]
    if not settings.activation_checkpointing:
        remedies.append("set training.activation_checkpointing = true, for a third more time")
    if processes > 1 and settings.gather != "layer":
        remedies.append('set training.gather = "layer"')
    return InputError(
        f"The {'GPU' if device == 'cuda' else 'machine'} has no memory left for what a process holds at once: "
        f"{'; or '.join(remedies)}. What is learnt stays the same, up to rounding, and the same command goes on from "
        "the newest checkpoint."
    )


def smaller(settings: TrainingSettings, processes: int) -> str:
    """The setting that bounds a micro-batch, as it is and at half.

    >>> from trainer.settings.phases import PhaseSettings
    >>> smaller(TrainingSettings(phase=(PhaseSettings(steps=1, batch=256),)), 2)
    'set training.micro_batch = 64 (now a process takes its whole share of a step, 128 examples)'
    """
    if settings.micro_batch_tokens is not None:
        now = settings.micro_batch_tokens
        return f"lower training.micro_batch_tokens, now {now}, to {max(now // 2, 1)}"
    share = max(-(-phase.batch // processes) for phase in settings.phase)
    if settings.micro_batch is not None and settings.micro_batch <= share:
        now = settings.micro_batch
        return f"lower training.micro_batch, now {now}, to {max(now // 2, 1)}"
    half = max(share // 2, 1)
    return f"set training.micro_batch = {half} (now a process takes its whole share of a step, {share} examples)"


def not_deterministic(said: str) -> InputError:
    """Of an operation that has no algorithm that adds up in one order."""
    operation = said[: said.index(NOT_DETERMINISTIC)].split()[-1]
    return InputError(
        f"training.deterministic = true, and {operation} has no algorithm on this GPU that adds up in one order. "
        "Leave training.deterministic out: weights then differ by rounding from run to run."
    )
