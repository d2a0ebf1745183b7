"""Fixtures of the trainer's tests."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Shards with pairs, and their vocabulary: those of one file of tests."""
    from small_training import put_store

    return put_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def one_process() -> Iterator[None]:
    """A process group of this process, for a while."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
