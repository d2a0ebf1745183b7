"""The interface of an engine."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from corpora.generic_types import Result
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from trainer.launch import Stop


class RunEngine(Protocol):
    """Workers, wherever they are. Safe to call from many threads."""

    @property
    def num_workers(self) -> int:
        """Return how many calls run at once."""

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a module-level function and wait for its result. Raises what it raised, or WorkerDied."""

    def get_progress(self) -> object:
        """Return a value that changes while they work: what each works on, or if unknown how much is done."""


@runtime_checkable
class TrainingEngine(Protocol):
    """An engine that may have machines to train on."""

    def train(
        self,
        place: Place,
        stage: Stage,
        plans: Sequence[PartPlan],
        distrusted: frozenset[str],
        hear: Callable[[Mapping[str, Any]], None],
        stop: Stop,
    ) -> bool:
        """Train a model there and put its part into the store; returns False, with nothing done, where there is no such
        machine.

        hear: called with every event of the trainer, on this thread
        """
