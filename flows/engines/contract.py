"""What an engine is."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

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
