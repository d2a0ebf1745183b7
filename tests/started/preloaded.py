"""Has, once for all ranks that are forked from a process, what each of them would take two seconds of a core to get."""

import pyarrow as pa
import torch._dynamo  # noqa: F401  # optimizers import it
from numba.core.registry import cpu_target

import trainer.pretrain  # noqa: F401

pa.array([0])  # looks for pandas
cpu_target.typing_context.refresh()  # which the first kernel does
cpu_target.target_context.refresh()
