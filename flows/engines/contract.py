"""The interface of an engine: what calls the functions of a run on worker processes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from corpora.generic_types import Result
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from trainer.launch import Stop


class RunEngine(Protocol):
    """Worker processes on this machine or on a cluster. Thread-safe."""

    @property
    def num_workers(self) -> int:
        """Maximum number of calls that run in parallel."""

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a module-level function on a worker, wait for it, and return its result.

        Args:
            function: The function to call.
            args: Its arguments, which must be picklable.

        Raises:
            WorkerDied: If the worker process ended while it ran the function.
            Exception: Whatever the function raised, unchanged.
        """

    def get_progress(self) -> object:
        """Return a value that changes while the workers make progress, and stays the same while they stall."""


@runtime_checkable
class TrainingEngine(Protocol):
    """An engine that can train a model on another machine with GPUs, if there is one."""

    def train(
        self,
        place: Place,
        stage: Stage,
        plans: Sequence[PartPlan],
        distrusted: frozenset[str],
        on_event: Callable[[Mapping[str, Any]], None],
        stop: Stop,
    ) -> bool:
        """Train the model of a pipeline stage on a machine with GPUs, and write the model into the store.

        Args:
            place: The store.
            stage: The stage of the model.
            plans: The missing parts (outputs) of the stage, each with a training job.
            distrusted: Paths of damaged files in the store, which must not be read.
            on_event: Called with each event of the trainer (a dict), on this thread.
            stop: Object that another thread calls to stop the training run.

        Returns:
            True once the model is in the store; False, without training, if there is no such machine.

        Raises:
            InputError: If training is not possible for a reason that the user can fix.
        """
