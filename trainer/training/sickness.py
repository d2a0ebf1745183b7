"""Where numbers ceased to be finite: noted on the device, where no step waits for it, and read when a line is said.

A loss is of one micro-batch of one process, so it leads to the examples; a gradient is of all of them.
"""

import torch
from torch import Tensor


class Sickness:
    """The first step whose loss or gradient was not finite.

    place: int64 [2] on the device: that step, and the micro-batch of this process whose loss it was; -1 where none is
    """

    def __init__(self, device: torch.device) -> None:
        self.place = torch.full((2,), -1, dtype=torch.int64, device=device)

    @property
    def found(self) -> Tensor:
        """bool []: whether there was one."""
        return self.place[0] >= 0

    def look_at_loss(self, sums: Tensor, step: int, micro_batch: int) -> None:
        """What a micro-batch came to."""
        first = self._first(sums)
        self.place[0].masked_fill_(first, step)
        self.place[1].masked_fill_(first, micro_batch)

    def look_at_gradient(self, norm: Tensor, step: int) -> None:
        """What a step came to."""
        self.place[0].masked_fill_(self._first(norm), step)

    def _first(self, numbers: Tensor) -> Tensor:
        """bool []: whether these are the first that are not finite."""
        return (self.place[0] < 0) & ~numbers.isfinite().all()
