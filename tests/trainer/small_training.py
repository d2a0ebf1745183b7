"""A training run that takes a second: tiny model, tiny shards.

store = put_store(folder)
job = small_job(store, folder / "work", steps=6, dropout=0.0)
events = train_here(job)
events = train_on_ranks(small_job(store, folder / "other", processes=2))
"""

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file
from small_shards import put_shards
from torch import Tensor

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from shards.settings import ShardSettings
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.job import JobInput, TrainingJob
from trainer.metrics import METRICS_FILE, MetricsLog, read_metrics
from trainer.settings.model import ModelSettings
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

TIMES = ("tokens_per_second", "wait_seconds", "wait_share", "mfu", "memory_bytes", "seconds")
PHASES = (PhaseSettings(steps=6, batch=8),)
RANK_SECONDS = 300.0  # for a training of a second or two, where the machine is busy


class SmallStore(NamedTuple):
    """A store with shards of 32 tokens and their vocabulary."""

    place: Place
    shards: Manifest
    vocabulary: Manifest


def put_store(folder: Path, gone: Sequence[int] = (), **settings: Any) -> SmallStore:
    """Shards of 40 documents, two copies; `gone` are deleted ones."""
    place = Place(str(folder / "store"))
    return SmallStore(place, *put_shards(place, ShardSettings(length=32, copies=2, **settings), gone=gone))


def small_model(dropout: float = 0.1) -> ModelSettings:
    """Two layers of 32."""
    return ModelSettings(
        layers=2, hidden_size=32, heads=2, feed_forward_size=64, max_length=32, dropout=dropout,
        attention_dropout=dropout,
    )  # fmt: skip


def small_job(
    store: SmallStore, work: Path, phases: tuple[PhaseSettings, ...] = PHASES, dropout: float = 0.1, **training: Any
) -> TrainingJob:
    """A job of one process that reads the store's shards in every phase."""
    facts = store.shards.facts
    shards = JobInput(folder=store.shards.folder, content=store.shards.content)
    return TrainingJob(
        name="small",
        store=store.place.address,
        shards=(shards,) * len(phases),
        vocabulary=JobInput(folder=store.vocabulary.folder, content=store.vocabulary.content),
        model=small_model(dropout),
        training=TrainingSettings(
            phase=phases,
            **{"learning_rate": 1e-3, "checkpoint_every": 2, "async_checkpoints": False, "processes": 1, **training},
        ),
        inputs=ModelInputs(
            vocab_size=facts["vocab_size"],
            special_ids=SpecialIds.from_roles(facts["special_ids"]),
            pair_labels=facts["pair_labels"],
        ),
        work=str(work),
    )


def small_bert(transformers: Any, kind: str, vocab_size: int) -> Any:
    """A model of transformers for examples of 32 tokens, without dropout."""
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=vocab_size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return getattr(transformers, kind)(config)


def with_training(job: TrainingJob, **training: Any) -> TrainingJob:
    """The same job with other training settings."""
    return replace(job, training=replace(job.training, **training))


def train_here(job: TrainingJob) -> list[dict[str, Any]]:
    """Train in this process; what was said."""
    from trainer.pretrain import pretrain
    from trainer.ranks import join_process_group

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of features that are new to it
        with join_process_group() as ranks:
            pretrain(job, ranks)
    return said(job)


def train_on_ranks(job: TrainingJob) -> list[dict[str, Any]]:
    """Train on the job's number of processes, each told its rank as by torchrun; what was said.

    They are forked from one that has imported torch, which takes each 3 s where a launcher starts them. So no launcher
    is tried here.
    """
    on_ranks(train_here, job, job.training.processes)
    return said(job)


def on_ranks(does: Callable[[Any], Any], job: Any, count: int) -> None:
    """Call a function of a module on so many processes. See `train_on_ranks`."""
    with _ranks(does, job, count) as ranks:
        for each in ranks:
            each.join(RANK_SECONDS)
    assert [each.exitcode for each in ranks] == [0] * count


def as_rank(rank: int, count: int, device: str = "cpu", times: int = 1) -> Any:
    """A process among others that do not exist; a step is counted as if every process had read so many times this."""
    return SimpleNamespace(
        rank=rank, count=count, device=torch.device(device), count_up=lambda numbers: times * numbers
    )


def read_by(feed: Any, first: int = 0, slot: int = 0) -> list[Any]:
    """The micro-batches of every step of a feed from one on."""
    return [step.micro_batches for step in feed.iter_steps(first, slot, 0)]


def kill(job: TrainingJob, step: int) -> None:
    """Train on processes of its own, of which the first is killed as soon as it has told of a step, then the others."""
    with _ranks(partial(_train_until, step=step), job, job.training.processes) as ranks:
        ranks[0].join(RANK_SECONDS)
    assert ranks[0].exitcode == -signal.SIGKILL


def _train_until(job: TrainingJob, step: int) -> None:
    """Train up to the line of a step, where this process is killed."""
    say = MetricsLog.write_event

    def tell(log: MetricsLog, event: str, at: int, **fields: Any) -> None:
        say(log, event, at, **fields)
        if (event, at, os.environ["RANK"]) == ("step", step, "0"):
            os.kill(os.getpid(), signal.SIGKILL)

    MetricsLog.write_event = tell  # type: ignore[method-assign]  # nobody else is in this process
    train_here(job)


@contextmanager
def _ranks(does: Callable[[Any], Any], job: Any, count: int) -> Iterator[Sequence[BaseProcess]]:
    """So many processes that call a function; those that are left in the end are killed.

    They meet at a store of this process, as under torchrun: a port of their own could be taken by then.
    """
    from torch.distributed import TCPStore

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["preloaded"])
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = [context.Process(target=_as_rank, args=(does, job, rank, count, store.port)) for rank in range(count)]
    for each in ranks:
        each.start()
    yield ranks
    for each in ranks:
        each.kill()  # where it is not gone
        each.join()


def _as_rank(does: Callable[[Any], Any], job: Any, rank: int, count: int, port: int) -> None:
    """One of several processes."""
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in told.items()}, MASTER_ADDR="127.0.0.1")
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    does(job)


def said(job: TrainingJob) -> list[dict[str, Any]]:
    """Return the events of a run, without times."""
    events = read_metrics(Path(job.work) / METRICS_FILE)
    return [{name: value for name, value in event.items() if name not in TIMES} for event in events]


@contextmanager
def stopped_after(step: int) -> Iterator[None]:
    """Send this process SIGTERM when the line of a step is written."""
    say = MetricsLog.write_event

    def tell(log: MetricsLog, event: str, at: int, **fields: Any) -> None:
        say(log, event, at, **fields)
        if (event, at) == ("step", step):
            signal.raise_signal(signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MetricsLog, "write_event", tell)
        yield


def of(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The events of one kind."""
    return [event for event in events if event["event"] == kind]


def exported(job: TrainingJob) -> dict[str, Tensor]:
    """The weights of the finished model."""
    return load_file(job.export / "model.safetensors")


def exported_bytes(job: TrainingJob) -> bytes:
    """The file of the finished model."""
    return (job.export / "model.safetensors").read_bytes()


def flip(path: Path) -> None:
    """Another lowest bit of the byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def trained_shard(shards: Manifest) -> str:
    """The path, in the store, of a file that is trained on."""
    part = next(part for part in shards.parts if part.labels.get("split") == "train")
    return f"{shards.stage_folder}/{part.files[0].path}"


def flip_tokens(path: Path, byte: int = 0, num_tokens: int = 1) -> None:
    """Flip the lowest bit of a byte of the first tokens of a shard.

    With byte 0 a token becomes its neighbour in the vocabulary: training goes well, and learns it.
    """
    with pa.memory_map(str(path)) as mapped:
        whole = mapped.read_buffer()
        ids = pa.ipc.open_file(whole).get_batch(0).column("ids").values
        place = ids.buffers()[1].address - whole.address
        assert len(ids) >= num_tokens and ids.type == pa.uint16()
    data = bytearray(path.read_bytes())
    for token in range(num_tokens):
        data[place + 2 * token + byte] ^= 1
    path.write_bytes(data)
