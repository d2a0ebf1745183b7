"""What an engine is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from trainer.launching.stopping import Stop

Result = TypeVar("Result")


class RunEngine(Protocol):
    """Workers, wherever they are. Safe to call from many threads."""

    @property
    def workers(self) -> int:
        """How many calls go on at once."""
        ...

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a module-level function and wait for its result. Raises what it raised, or WorkerDied."""
        ...

    def signs(self) -> object:
        """What changes as long as they go on: what each works on, or where that is not known here how much is done."""
        ...


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
        """Train a model there and put its part into the store; False, and nothing is done, where there is no such
        machine.

        hear: called with every event of the trainer, on this thread
        """
        ...
