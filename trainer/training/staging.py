"""A copy of the state of a training in main memory, for a thread that writes it while the next step changes the state.

Every tensor is copied, those of a processor as well: a thread that wrote them themselves would write some of them as
they are after the next step. A sharded one becomes a sharded one of processors, with the same places in the whole.

Cost: this process's share of weights and moments in main memory, once, which the next copy is made into; on a GPU it is
pinned, and copied at the speed of the bus.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor


class Staging:
    """The memory that states are copied into. mesh: the same processes, as processors"""

    def __init__(self, mesh: DeviceMesh) -> None:
        self._mesh = mesh
        self._kept: dict[tuple[str | int, ...], Tensor] = {}

    def copied(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state as it is now. What was copied before is written over, and must be of no use any more."""
        copy: dict[str, Any] = self._copied(state, ())
        if any(kept.is_pinned() for kept in self._kept.values()):
            torch.cuda.current_stream().synchronize()
        return copy

    @property
    def size_bytes(self) -> int:
        """Of what was copied."""
        return sum(kept.nbytes for kept in self._kept.values())

    def _copied(self, value: Any, at: tuple[str | int, ...]) -> Any:
        if isinstance(value, DTensor):
            local = self._tensor(value.to_local(), at)
            shape, stride = value.shape, value.stride()
            return DTensor.from_local(local, self._mesh, value.placements, run_check=False, shape=shape, stride=stride)
        if isinstance(value, Tensor):
            return self._tensor(value, at)
        if isinstance(value, Mapping):
            return {key: self._copied(item, (*at, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copied(item, (*at, number)) for number, item in enumerate(value)]
        return value  # numbers and names, which nobody changes in place

    def _tensor(self, tensor: Tensor, at: tuple[str | int, ...]) -> Tensor:
        kept = self._kept.get(at)
        if kept is None or kept.shape != tensor.shape or kept.dtype != tensor.dtype:
            kept = self._kept[at] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return kept.copy_(tensor.detach(), non_blocking=True)
