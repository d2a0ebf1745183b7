"""A training on the worker of a cluster that has GPUs: its processes are there, its words come here, and it stops."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from launched import wait_until
from small_cluster import WITH_GPU, DaskCluster, await_gone
from small_training import put_store, small_model

from corpora.store.places.place import Place
from corpora.store.stage import Stage, publish_stage, survey_stage
from corpora.store.worker_pool import PoolClosed, WorkerLimits
from flows.engines import dask_cluster as training
from flows.engines.dask_cluster import Cluster
from trainer.build import locate_work_folder, plan_model
from trainer.launch import Stop
from trainer.metrics import Event
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

pytestmark = [pytest.mark.server, pytest.mark.slow]


def planned(folder: Path, steps: int) -> tuple[Place, Stage]:
    """A store, and the stage of a model of so many steps."""
    store = put_store(folder)
    settings = TrainingSettings(
        phase=(PhaseSettings(steps=steps, batch=8),), learning_rate=1e-3, processes=1, checkpoint_every=20
    )
    return store.place, plan_model(store.place, "small", [store.shards], store.vocabulary, small_model(), settings)


def train(
    address: str,
    place: Place,
    stage: Stage,
    hear: Callable[[Event], None],
    stop: Stop | None = None,
    told: list[str] | None = None,
) -> bool:
    """Train a stage's model as a run does."""
    engine = Cluster(address, WorkerLimits(), (told if told is not None else []).append)
    return engine.train(place, stage, stage.parts, frozenset(), hear, stop or Stop())


def trainers(cluster: DaskCluster, work: Path) -> list[int]:
    """The processes below the worker with GPUs that train in a folder."""
    found = [pid for pid in cluster.processes_of(WITH_GPU) if str(work) in _command(pid)]
    return [pid for pid in found if "trainer" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def newest_step(place: Place, stage: Stage) -> int:
    """Return the step of the newest checkpoint."""
    names = (path.name for path in (locate_work_folder(place, stage) / "checkpoints").glob("step-*"))
    return max((int(name.partition("-")[2]) for name in names), default=0)


@pytest.mark.long
def test_a_model_is_trained_where_the_gpus_are(cluster: DaskCluster, tmp_path: Path) -> None:
    """Told to stop it writes a checkpoint and leaves; its worker is killed, as a machine goes, and another goes on.

    Fails where the ranks are not below the worker, go on without it or after a stop, or begin again from nothing.
    """
    place, stage = planned(tmp_path, 400)
    work = locate_work_folder(place, stage)
    told: list[str] = []
    heard = stopped_training(cluster, place, stage)
    assert [event["event"] for event in heard][-2:] == ["stopping", "checkpoint"] and not trainers(cluster, work)
    assert newest_step(place, stage) == heard[-1]["step"] < 400

    again: list[Event] = []
    seen: list[int] = []

    def hear(event: Event) -> None:
        again.append(event)
        if event["event"] == "checkpoint" and not seen:
            seen.extend(trainers(cluster, work))
            assert seen, "the ranks are below the worker"
            cluster.kill(WITH_GPU)
            cluster.start_worker(WITH_GPU)

    assert train(cluster.address, place, stage, hear, told=told)
    await_gone(seen)
    resumed = [event["step"] for event in again if event["event"] == "resume"]
    assert len(resumed) == 2 and resumed[1] > resumed[0] == heard[-1]["step"] and again[-1]["event"] == "done"
    assert len([line for line in told if line.startswith("models/small: trains on the worker tcp://")]) == 2
    survey = survey_stage(place, stage)
    assert not survey.missing, "the part is built on the worker as well"
    assert publish_stage(place, stage, survey).ledger.figures["steps"] == 400


def stopped_training(cluster: DaskCluster, place: Place, stage: Stage) -> list[Event]:
    """Return the events of a training that gets a stop signal after its first step."""
    heard: list[Event] = []
    stop, steps = Stop(), threading.Event()

    def hear(event: Event) -> None:
        heard.append(event)
        if event["event"] == "step":
            steps.set()

    stopping = threading.Thread(target=lambda: steps.wait() and stop())
    stopping.start()
    with pytest.raises(PoolClosed, match="the training was stopped"):
        train(cluster.address, place, stage, hear, stop)
    stopping.join()
    return heard


def test_without_gpus_a_model_is_trained_here(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, stage = planned(tmp_path, 4)
    told: list[str] = []
    monkeypatch.setattr(training, "list_training_workers", lambda client: [])
    assert not train(cluster.address, place, stage, lambda event: None, told=told)
    assert told == ["models/small: no worker of the cluster has the resource GPU, so it is trained on this machine."]
    assert wait_until(lambda: not trainers(cluster, locate_work_folder(place, stage)))
