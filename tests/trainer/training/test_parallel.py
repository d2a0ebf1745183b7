"""Processes as one: how they leave each other, what they hold, and what is said of one that is not there."""

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch._dynamo
from small_batches import small_inputs, small_settings
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore

from corpora.errors import InputError
from trainer import compute, learn, ranks
from trainer.learn import shard_model, should_gather_once
from trainer.model.encoder import Layer
from trainer.model.masked import MaskedHead
from trainer.model.objective import build_model
from trainer.ranks import PeersLost, Ranks, find_absent, join_process_group, read_position, wait_for_all
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings


def test_no_process_leaves_before_the_last_one_is_there() -> None:
    """Fails if one goes on while another is still at work, or where the last one waits for ever."""
    store, left = HashStore(), list[int]()

    def leave(rank: int) -> None:
        wait_for_all(store, 3)
        left.append(rank)

    early = [threading.Thread(target=leave, args=(rank,)) for rank in (0, 1)]
    for thread in early:
        thread.start()
    while store.add("here", 0) < 2:
        time.sleep(0.01)
    assert left == []
    leave(2)
    for thread in early:
        thread.join()
    assert sorted(left) == [0, 1, 2]


def test_who_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a process that hangs is not told from those that waited for it in vain.

    What is waited for here is that both have said so, however long that takes.
    """
    both = threading.Barrier(2)
    monkeypatch.setattr(ranks, "time", SimpleNamespace(sleep=lambda seconds: both.wait()))
    store, found = HashStore(), dict[int, list[int]]()
    waited = [
        threading.Thread(target=lambda rank=rank: found.update({rank: find_absent(store, rank, 4)})) for rank in (0, 3)
    ]
    for thread in waited:
        thread.start()
    for thread in waited:
        thread.join()
    assert found == {0: [1, 2], 3: [1, 2]}
    store.set("stands 1", "in step 7")
    lost = PeersLost({rank: read_position(store, rank) for rank in (1, 2)}, "recv timed out\nat")
    assert str(lost).startswith("rank 1 (in step 7) and rank 2 did not")


class Times(nn.Module):
    """A layer of a kind of its own."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind, self.weight = "x" * kind, nn.Parameter(torch.ones(2))

    def forward(self, rows: Tensor) -> Tensor:
        return rows * self.weight * len(self.kind)


@pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it
def test_layers_of_many_kinds_are_all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if torch, as it comes, gives up after eight kinds of layers, as ModernBERT has in all modes."""
    torch._dynamo.reset()
    graphs, layers = list[str](), nn.Sequential(*map(Times, range(1, 11)))

    def program(graph: Any, inputs: Any) -> Any:
        graphs.append(graph.code)
        return graph.forward

    compiled = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda part: compiled(part, backend=program))
    phase = (PhaseSettings(steps=1, batch=1),)
    with join_process_group("cpu") as ranks, torch._dynamo.config.patch(recompile_limit=8):
        shard_model(layers, [*layers], [], ranks, TrainingSettings(phase=phase, compile=True))
        layers(torch.ones(3, 2))
    torch._dynamo.reset()
    assert len(graphs) == len(layers)


def test_heads_of_words_are_compiled_with_their_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the logits of a compiled model are copied operation by operation."""
    compiled = list[type]()
    monkeypatch.setattr(nn.Module, "compile", lambda part: compiled.append(type(part)))
    phase = (PhaseSettings(steps=1, batch=1),)
    model = build_model(small_settings(), small_inputs("bert"))
    with join_process_group("cpu") as ranks:
        shard_model(model, model.list_shard_groups(), [], ranks, TrainingSettings(phase=phase, compile=True))
    assert compiled == [Layer, Layer, MaskedHead]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU can be had here")
def test_a_gpu_that_is_not_there_is_told() -> None:
    """Fails if a training that asks for a GPU goes on without one, for days."""
    with (
        pytest.raises(InputError, match=r'training.device = "cuda" asks for a GPU, and torch sees none'),
        join_process_group("cuda"),
    ):
        pass
    with join_process_group("cpu") as ranks:
        assert ranks.device == torch.device("cpu")


@pytest.mark.parametrize(
    "gather, precision, parameters, once",
    [
        ("step", "float32", 1000, True),
        ("layer", "float32", 1, False),
        ("auto", "float32", 50, True),
        ("auto", "float32", 51, False),
        ("auto", "bfloat16", 100, True),
    ],
)
def test_weights_stay_gathered_where_there_is_memory(
    monkeypatch: pytest.MonkeyPatch, gather: str, precision: str, parameters: int, once: bool
) -> None:
    """Fails if gathered weights may fill the device, or the precision that they are gathered in does not count."""
    monkeypatch.setattr(learn, "_find_memory_bytes", lambda ranks: 800)
    ranks = Ranks(rank=0, count=2, device=torch.device("cpu"), mesh=cast(Any, None))
    settings = TrainingSettings(phase=(PhaseSettings(steps=1),), gather=gather, precision=precision)
    assert should_gather_once(torch.nn.Linear(parameters, 1, bias=False), ranks, settings) == once


@pytest.mark.parametrize(
    ("hidden_size", "longest", "threads"), [(32, 64, 1), (128, 16, 1), (128, 512, 2), (768, 64, 2)]
)
def test_a_small_model_computes_on_one_thread(hidden_size: int, longest: int, threads: int) -> None:
    """Fails if threads of a tiny model or of short rows wait for each other, if a larger model is left with one thread,
    or if the number of threads is not restored."""
    before, training = torch.get_num_threads(), TrainingSettings(phase=(PhaseSettings(steps=1, batch=32),))
    torch.set_num_threads(2)
    try:
        with join_process_group("cpu") as ranks:
            with compute.hold_num_threads(training, small_settings(hidden_size=hidden_size), longest, ranks):
                assert torch.get_num_threads() == threads
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
