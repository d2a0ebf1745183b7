"""A training on the worker of a cluster that has GPUs: its processes are there, its words come here, and it stops."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from launched import wait_until
from small_cluster import PATHS, WITH_GPU, DaskCluster, await_gone
from small_training import put_store, small_model

from corpora.store.places import Place
from corpora.store.pool import Limits, PoolClosed
from corpora.store.stage import Stage, publish, survey_stage
from flows.engines import training
from flows.engines.cluster import Cluster
from trainer.build import plan_model, work_folder
from trainer.launch import Stop
from trainer.settings import PhaseSettings, TrainingSettings

pytestmark = [pytest.mark.server, pytest.mark.slow]

Event = Mapping[str, Any]
CLIENT = """
import sys
from pathlib import Path
from test_training_on_cluster import planned, train
train(sys.argv[1], *planned(Path(sys.argv[2]), int(sys.argv[3])), lambda event: print(event["event"], flush=True))
"""


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
    engine = Cluster(address, Limits(), (told if told is not None else []).append)
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
    """Of the checkpoints."""
    names = (path.name for path in (work_folder(place, stage) / "checkpoints").glob("step-*"))
    return max((int(name.partition("-")[2]) for name in names), default=0)


def test_a_model_is_trained_where_the_gpus_are(cluster: DaskCluster, tmp_path: Path) -> None:
    """Its worker is killed on the way, as a machine goes: another one goes on from the checkpoint, to the artifact."""
    place, stage = planned(tmp_path, 300)
    heard: list[Event] = []
    seen: list[int] = []
    told: list[str] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if event["event"] == "checkpoint" and not seen:
            seen.extend(trainers(cluster, work_folder(place, stage)))
            assert seen, "the ranks are below the worker"
            cluster.kill(WITH_GPU)
            cluster.start_worker(WITH_GPU)

    assert train(cluster.address, place, stage, hear, told=told)
    await_gone(seen)
    kinds = [event["event"] for event in heard]
    resumed = next(event for event in heard if event["event"] == "resume")
    assert resumed["step"] >= 20 and kinds[0] == "start" and kinds[-1] == "done"
    assert len([line for line in told if line.startswith("models/small: trains on the worker tcp://")]) == 2
    survey = survey_stage(place, stage)
    assert not survey.missing, "the part is built on the worker as well"
    assert publish(place, stage, survey).ledger.figures["steps"] == 300


def test_a_training_stops_with_who_waits_for_it(cluster: DaskCluster, tmp_path: Path) -> None:
    """Killed, or told to: a checkpoint of the step that it was in is there, and nothing goes on at the worker."""
    place, stage = planned(tmp_path, 1_000_000)
    paths = os.pathsep.join(map(str, [*PATHS, Path(__file__).parent, PATHS[0] / "tests" / "trainer"]))
    command = [sys.executable, "-c", CLIENT, cluster.address, str(tmp_path), "1000000"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        while run.stdout.readline() not in ("checkpoint\n", ""):
            pass
        pids = trainers(cluster, work_folder(place, stage))
        run.send_signal(signal.SIGKILL)
    assert pids
    await_gone(pids, 60.0)
    killed_at = newest_step(place, stage)
    assert killed_at > 20

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
    assert not trainers(cluster, work_folder(place, stage))
    kinds = [event["event"] for event in heard]
    assert kinds[-2:] == ["stopping", "checkpoint"] and newest_step(place, stage) == heard[-1]["step"] > killed_at


def test_without_gpus_a_model_is_trained_here(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, stage = planned(tmp_path, 4)
    told: list[str] = []
    monkeypatch.setattr(training, "trainers_of", lambda client: [])
    assert not train(cluster.address, place, stage, lambda event: None, told=told)
    assert told == ["models/small: no worker of the cluster has the resource GPU, so it is trained on this machine."]
    assert wait_until(lambda: not trainers(cluster, work_folder(place, stage)), 1.0)
