"""Every optimiser on two processes is that of one, and goes on from a checkpoint as if nothing had happened."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import sharded_steps
import torch
import torch.distributed as dist
from sharded_steps import KINDS, STEPS
from small_training import on_ranks
from torch import Tensor

Weights = dict[str, Tensor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what one process and two processes made."""
    found = tmp_path_factory.mktemp("sharded")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of features that are new to it
        sharded_steps.main(found, 0, 1)
    on_ranks(sharded_steps.as_rank, found, 2)
    return found


@pytest.fixture
def alone(folder: Path) -> Iterator[None]:
    """A process group of this process, for a while."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def weights(folder: Path, ranks: int, kind: str) -> dict[str, Weights]:
    found: dict[str, Weights] = torch.load(folder / str(ranks) / f"{kind}.pt")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_are_one(folder: Path, kind: str) -> None:
    """Fails where a norm, or a mean, is of what one process holds."""
    one, two = (weights(folder, ranks, kind)["straight"] for ranks in (1, 2))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_on_from_a_checkpoint_ends_with_the_same_bits(folder: Path, kind: str, ranks: int) -> None:
    """Fails where a moment or the number of steps is not kept."""
    found = weights(folder, ranks, kind)
    assert all(torch.equal(found["straight"][name], tensor) for name, tensor in found["resumed"].items())


@pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it
@pytest.mark.parametrize("kind", KINDS)
def test_one_process_goes_on_for_two(folder: Path, alone: None, kind: str) -> None:
    resumed = sharded_steps.restored(kind, folder / "2" / kind)
    sharded_steps.learn(*resumed, range(3, STEPS))
    expected = weights(folder, 1, kind)["straight"]
    for name, tensor in sharded_steps.whole(resumed[0]).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-6)
