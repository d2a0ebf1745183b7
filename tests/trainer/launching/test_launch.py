"""Training as processes of its own, and the models stage: what comes out, what is refused, what is left behind."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiers
from small_shards import put_shards
from small_training import SmallStore, exported_bytes, flip, of, put_store, said, small_job, small_model, train_here

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage, survey_stage
from corpora.store.tables import read_part_table
from shards.settings import ShardSettings
from trainer import build, launch, pretrain
from trainer import launch as commands
from trainer import torchrun_agent as agent
from trainer.build import locate_work_folder, plan_model
from trainer.job import TrainingJob
from trainer.launch import (
    FIRST_TO_END,
    LOG_FILE,
    LOG_LINES,
    RESUME_HINT,
    Nodes,
    TrainingFailed,
    build_command,
    build_environment,
    count_processes,
    count_usable_cores,
    describe_failure,
    select_last_lines,
    train,
    with_local_shards,
)
from trainer.metrics import Event
from trainer.settings.model import ModelSettings
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

ROOT = Path(__file__).parents[3]
TRAIN = """
import sys
from pathlib import Path
from trainer.job import TrainingJob
from trainer.launch import train
train(TrainingJob.from_json(Path(sys.argv[1]).read_text()), lambda event: print(event["event"], flush=True))
assert "torch" not in sys.modules
"""


ONE_STEP = TrainingSettings(phase=(PhaseSettings(steps=1),))
TWICE = TrainingSettings(phase=(PhaseSettings(steps=1), PhaseSettings(steps=1)))


def planned(store: SmallStore, model: ModelSettings | None = None, **training: Any) -> Stage:
    """The stage of a model of four steps in two phases."""
    phases = (PhaseSettings(steps=3, batch=8), PhaseSettings(steps=1, batch=4))
    settings = TrainingSettings(phase=phases, **{"learning_rate": 1e-3, "processes": 1, **training})
    return plan_model(store.place, "small", [store.shards] * 2, store.vocabulary, model or small_model(), settings)


def test_a_stage_is_named_by_what_decides_the_weights(store: SmallStore) -> None:
    """Fails if limits rebuild a model, or settings and phases do not."""
    stage = planned(store)
    assert planned(store, processes=2, log_every=5, compile=True).fingerprint == stage.fingerprint
    for other in (planned(store, seed=1), planned(store, model=small_model(dropout=0.2))):
        assert other.fingerprint != stage.fingerprint
        assert other.compute_part_fingerprint(other.parts[0]) != stage.compute_part_fingerprint(stage.parts[0])
    assert {parent.role for parent in stage.parents} == {"shards", "vocabularies"} and len(stage.parents) == 2
    job: TrainingJob = stage.parts[0].job
    assert Path(job.work) == locate_work_folder(store.place, stage)
    assert TrainingJob.from_json(job.to_json()) == job
    far = Place("s3://bucket/prefix?endpoint_override=127.0.0.1:1&scheme=http")
    assert locate_work_folder(far, stage).is_relative_to(Path.home())


def test_shards_of_another_vocabulary_or_length_are_refused(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a model would be trained on ids of another vocabulary, or on positions that it does not have."""
    place = Place(str(tmp_path))
    other = put_shards(place, ShardSettings(length=32), vocabulary_size=120)
    with pytest.raises(InputError, match="'small' of phase 2 have a different vocabulary"):
        plan_model(place, "small", [store.shards, other.shards], store.vocabulary, small_model(), TWICE)
    with pytest.raises(InputError, match="'small' of phase 1 have a different vocabulary"):
        plan_model(place, "small", [store.shards, store.shards], other.vocabulary, small_model(), TWICE)
    with pytest.raises(InputError, match="examples of up to 32 tokens, and the model has 16 positions"):
        planned(store, model=replace(small_model(), max_length=16))
    assert planned(store, micro_batch_tokens=32).parts
    with pytest.raises(InputError, match=r"to 32 tokens, .* training.micro_batch_tokens = 31 at once: raise it to at"):
        planned(store, micro_batch_tokens=31)


def test_shards_without_masks_are_refused(store: SmallStore) -> None:
    """Fails if a model of masked tokens would be trained on examples of which it must guess nothing."""
    causal = replace(store.shards, facts={**store.shards.facts, "masking": "none"})
    with pytest.raises(InputError, match=r"'small' of phase 2 mask nothing .* Leave masking.kind out"):
        plan_model(store.place, "small", [store.shards, causal], store.vocabulary, small_model(), TWICE)


@pytest.mark.slow
def test_a_model_is_built_and_published(store: SmallStore) -> None:
    """Fails if the artifact lacks a file or a line, its slots do not add up, or it is trained twice."""
    stage = planned(store, evaluate_every=2)
    manifest = build_stage(store.place, stage)
    [part] = manifest.parts
    names = {file.path.rsplit("/", 1)[-1] for file in part.files}
    assert {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "model.metrics.arrow"} <= names
    account = manifest.ledger.find_account("slots")
    assert account.total == 28 and dict(account.outcomes) == {"deleted": 0, "read": 28}
    assert manifest.ledger.figures["steps"] == 4 and manifest.ledger.figures["parameters"] > 20_000
    metrics = [
        row for batch in read_part_table(store.place, "models/small", part, "metrics") for row in batch.to_pylist()
    ]
    assert "".join(f"{row['event'][0]}{row['step']}" for row in metrics) == "s1s2e2s3e3s4e4"
    assert all(row["masked_loss"] > 0 and row["tokens"] > 0 for row in metrics)
    survey = survey_stage(store.place, stage)
    assert survey.manifest == manifest and not survey.damaged
    before = said(stage.parts[0].job)
    store.place.delete(f"{manifest.folder}/manifest.json")
    store.place.delete(f"{manifest.folder}/parts/model.json")
    assert build_stage(store.place, stage).to_bytes() == manifest.to_bytes()
    assert said(stage.parts[0].job) == before


@pytest.fixture(scope="module")
def exported_here(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> TrainingJob:
    """A job that was trained in this process."""
    job = small_job(store, tmp_path_factory.mktemp("exported"))
    train_here(job)
    return job


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", COMPLETE_FILE])
def test_a_damaged_export_is_written_again(
    exported_here: TrainingJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Fails if a finished model with another bit is taken for finished, or is not the same once written again.

    It is written again in this process; the next test has one that does so in a process of its own.
    """
    job = replace(exported_here, work=str(shutil.copytree(exported_here.work, tmp_path / "work")))
    whole = {path.name: path.read_bytes() for path in job.export.iterdir()}
    flip(job.export / name)
    before, events = len(said(job)), list[Any]()
    monkeypatch.setattr(launch, "_run", lambda path, job, *_: events.extend(train_here(job)[before:]))
    train(job, events.append)
    assert [event["event"] for event in events] == ["damaged", "resume", "done"]
    assert name in events[0]["message"] and "written again from the newest checkpoint" in events[0]["message"]
    assert {path.name: path.read_bytes() for path in job.export.iterdir()} == whole


@pytest.mark.slow
def test_what_is_damaged_after_training_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a bit that flips between the export and the store is published, or running again does not mend it."""
    store = put_store(tmp_path)
    stage = planned(store)

    def train_and_flip(job: TrainingJob) -> None:
        train(job)
        flip(job.export / "model.safetensors")

    monkeypatch.setattr(launch, "_run", lambda path, job, *_: train_here(job))

    with monkeypatch.context() as patched, pytest.raises(InputError, match=r"model\.safetensors is damaged: its bytes"):
        patched.setattr(build, "train", train_and_flip)
        build_stage(store.place, stage)
    assert survey_stage(store.place, stage).missing == stage.parts
    assert build_stage(store.place, stage).count_rows("metrics") == 6


@pytest.mark.slow
def test_a_published_model_opens_elsewhere(store: SmallStore, transformers: Any) -> None:
    """Fails if the artifact's folder is no model and tokeniser for transformers."""
    manifest = build_stage(store.place, planned(store, evaluate_every=2))
    folder = store.place.to_full_path(manifest.folder)
    model = transformers.AutoModelForPreTraining.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer) == store.shards.facts["vocab_size"]
    assert tokenizer.mask_token_id == store.shards.facts["special_ids"]["mask"]
    inputs = tokenizer("a word " * 600, truncation=True, return_tensors="pt")
    assert inputs["input_ids"].shape[1] == tokenizer.model_max_length == manifest.facts["positions"]
    model(**inputs)  # a text that was not cut would ask for positions that it does not have


def test_what_the_user_can_mend_is_an_input_error(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails if a rank's paragraph is lost on the way, or another failure is taken for the user's.

    What a rank says is said in this process; another one says it again.
    """
    job = small_job(store, tmp_path / "a")
    gone = replace(job, shards=(replace(job.shards[0], content="another"),))
    assert pretrain.main([str(written(gone))]) == 2
    said = capfd.readouterr().out
    monkeypatch.setattr(
        launch, "build_command", lambda *_: [sys.executable, "-c", f"print({said!r}); raise SystemExit(2)"]
    )
    with pytest.raises(InputError, match="does not hold the shards"):
        train(gone)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"Cannot write .*/file/work: .*: move it away, or choose another store"):
        train(replace(job, work=str(tmp_path / "file" / "work")))
    monkeypatch.setattr(launch, "build_command", lambda *_: [sys.executable, "-c", "raise ValueError('of ours')"])
    with pytest.raises(TrainingFailed, match=r"(?s)exit code 1; the end of its log .*train\.log.*ValueError: of ours"):
        train(replace(job, work=str(tmp_path / "b")))


@pytest.mark.long
def test_of_several_ranks_the_first_that_failed_is_told(store: SmallStore, tmp_path: Path) -> None:
    """Fails if the summary of torchrun's agent, or another rank's traceback, hides what a rank died of."""
    job = small_job(store, tmp_path, processes=2)
    with pytest.raises(TrainingFailed) as failed:
        train(replace(job, model=replace(job.model, max_length=8)))
    *words, end, again = str(failed.value).splitlines()[1:]
    assert again == RESUME_HINT and len(words) == LOG_LINES - 1 and words[-1].endswith("index out of range in self")
    rank = words[-1].split(":")[0].strip("[rank]")
    assert end == f"{FIRST_TO_END}{rank} ended with exit code 1."
    assert all(word.startswith(f"[rank{rank}]:") for word in words)


@pytest.mark.parametrize("processes, threads", [(1, "8"), (2, "4"), (3, "2"), (8, "1"), (9, "1")])
def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch, processes: int, threads: str) -> None:
    """Fails if the threads of all processes are more than there are cores, or fewer than there could be."""
    monkeypatch.setattr(commands, "count_usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    told = build_environment(ONE_STEP, processes)
    assert told["OMP_NUM_THREADS"] == threads and "CUBLAS_WORKSPACE_CONFIG" not in told
    assert build_environment(replace(ONE_STEP, deterministic=True), 1)["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert build_environment(ONE_STEP, processes)["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize("said, cores", [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), (None, 8)])
def test_a_container_may_have_less_than_its_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, cores: int
) -> None:
    """Fails if threads are started for cores whose time the container is not given."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    if said is not None:
        (tmp_path / "cpu.max").write_text(f"{said}\n")
    assert count_usable_cores(tmp_path / "cpu.max") == cores


def test_processes_are_one_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if GPUs are left idle, or a training on the processor is cut by their number."""
    monkeypatch.setattr(commands, "count_gpus", lambda: 4)
    assert [count_processes(replace(ONE_STEP, device=device)) for device in ("auto", "cuda", "cpu")] == [4, 4, 1]
    assert count_processes(replace(ONE_STEP, processes=3)) == 3


@pytest.mark.parametrize(
    "code, last", [(1, f"{FIRST_TO_END}1 was killed by signal 9."), (-9, "step 7"), (1, "Error: no")]
)
def test_a_failure_says_how_to_go_on(tmp_path: Path, code: int, last: str) -> None:
    """Fails if the log's end is lost, or memory is not named where a process was killed as the system kills."""
    (tmp_path / LOG_FILE).write_text(f"of before\n{last}\n")
    told = describe_failure(tmp_path / LOG_FILE, len("of before\n"), code)
    assert told.splitlines()[1] == last and RESUME_HINT in told and "of before" not in told
    assert ("main memory runs out" in told) == (last != "Error: no")


def test_the_last_words_of_a_log() -> None:
    """Fails if the agent's lines or a rank that failed later are told, and where a rank's own words are not."""
    said = [
        "[rank0]: RuntimeError: Connection closed by peer",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "[rank1]: MemoryError",
        "W1122 14:14:51.825000 6816 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 6881",
        "E1122 14:14:51.836000 6816 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6)",
        "E1122 14:14:51.836000 6816 .venv/torch/distributed/elastic/agent.py:1002] failed (exitcode: -6)",
        f"{FIRST_TO_END}1 was killed by signal 6.",
    ]
    assert select_last_lines(said) == [*said[1:3], said[6]]
    assert select_last_lines(said[:3]) == said[:3]
    assert select_last_lines(["first", *["later"] * LOG_LINES]) == ["later"] * LOG_LINES


ABORTED = """
import os, sys
from trainer.__main__ import main
main(["train", sys.argv[1]])
print("a last word", file=sys.stderr, flush=True)
os.abort()
"""


@pytest.mark.slow
def test_a_process_that_dies_after_the_export_fails_nothing(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a finished model is given up for how its process ended, or the log does not say how it did; where a
    second call trains, or does not wait for the first."""
    monkeypatch.setattr(launch, "build_command", lambda path, *_: [sys.executable, "-c", ABORTED, str(path)])
    job = small_job(store, tmp_path)
    events, second = list[Any](), list[Any]()
    waiting = threading.Thread(target=train, args=(job, second.append))

    def hear(event: Any) -> None:
        events.append(event)
        if event["event"] == "start":
            waiting.start()

    train(job, hear)
    waiting.join()
    assert events[-1]["event"] == "done" and len(of(events, "step")) == 6 and exported_bytes(job)
    assert second == [] and job.read_export() is not None
    assert (tmp_path / LOG_FILE).read_text().splitlines()[-2:] == [
        "a last word",
        "The trainer was killed by signal 6 after the export was complete: the model is finished.",
    ]


def test_a_process_leaves_without_finalisation() -> None:
    """Fails if what was said is lost, the exit code is another, or the interpreter is finalised."""
    leaving = "import atexit; from corpora.store.processes import exit_now; atexit.register(print, 'late'); "
    left = subprocess.run(
        [sys.executable, "-c", f"{leaving}print('said'); exit_now(3)"], capture_output=True, check=False
    )
    assert (left.returncode, left.stdout) == (3, b"said\n")


def written(job: TrainingJob) -> Path:
    """The job's file, next to its work folder."""
    path = Path(job.work).with_suffix(".job.json")
    path.write_text(job.to_json())
    return path


def processes_with(*texts: str) -> list[int]:
    """Ids of the processes whose command line holds all texts."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
            if all(text.encode() in line for text in texts):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["launcher", pytest.param("agent", marks=pytest.mark.long)])
def test_no_rank_outlives_what_started_it(store: SmallStore, tmp_path: Path, killed: str) -> None:
    """Fails if a rank trains on after the process that started it, or torchrun's agent, was killed: in the long
    tier while it trains, else as soon as both ranks are there."""
    endless = (PhaseSettings(steps=100_000, batch=8, max_epochs=1e6),)
    job = small_job(store, tmp_path / "work", endless, processes=2, log_every=1000)
    launcher = subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(written(job))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    path = str(Path(job.work) / "job.json")
    try:
        if tiers.LONG:
            assert launcher.stdout is not None and launcher.stdout.readline() == b"start\n"
        while len(processes_with(path, "--die-with")) < 2 and launcher.poll() is None:
            time.sleep(0.05)
        [of_ranks] = processes_with(path, "trainer.torchrun_agent")
        os.kill(launcher.pid if killed == "launcher" else of_ranks, signal.SIGKILL)
        deadline = time.monotonic() + 300
        while processes_with(path) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes_with(path) == []
        said = launcher.communicate()[1]
        assert launcher.returncode == (-signal.SIGKILL if killed == "launcher" else 1)
        assert (b"TrainingFailed" in said) == (killed == "agent")
    finally:
        launcher.kill()
        for pid in processes_with(path):
            os.kill(pid, signal.SIGKILL)
        launcher.communicate()


@pytest.mark.parametrize(
    ("ranks", "killed"),
    [
        ([[], [1], [1, 2], [1], [1], [1], [1]], [1]),
        ([[1, 2], [1], [1], [1], [], [], [], []], []),
        ([[1, 2]] * 9, []),
        ([[1]] * 9, []),
    ],
)
def test_a_rank_that_hangs_does_not_outlive_the_others_for_long(
    monkeypatch: pytest.MonkeyPatch, ranks: list[list[int]], killed: list[int]
) -> None:
    """Fails if it is waited for half a minute, or one is killed while all are there or before all have come.

    ranks: those that are there at each look; each reading of the clock is 2 seconds after the one before
    """
    left, sent = [*ranks], list[tuple[int, int]]()
    monkeypatch.setattr(agent, "wait", lambda *_, **__: SimpleNamespace(done=not left))
    monkeypatch.setattr(agent, "list_children", lambda pid: left.pop(0))
    monkeypatch.setattr(agent, "send_signal", lambda *signalled: sent.append(signalled))
    monkeypatch.setattr(agent, "time", SimpleNamespace(monotonic=itertools.count(0, 2).__next__))
    agent.kill_those_left(Future(), processes=2)
    assert sent == [(pid, signal.SIGKILL) for pid in killed]


def test_shards_of_an_object_store_are_copied_once(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a copy lacks a file, or files that are there are fetched again. (A folder stands for the store.)"""
    job = small_job(store, tmp_path / "work")
    copied = with_local_shards(job, tmp_path / "copies")
    assert copied == replace(job, store=str(tmp_path / "copies"))
    place = Place(copied.store)
    sizes = place.list_files("shards")
    assert sizes == store.place.list_files("shards")
    times = {path: Path(place.to_full_path(path)).stat().st_ino for path in sizes if path.endswith(".arrow")}
    with_local_shards(job, tmp_path / "copies")
    assert times == {path: Path(place.to_full_path(path)).stat().st_ino for path in times} and len(times) == 8


def test_commands(tmp_path: Path) -> None:
    """Fails if one rank takes an agent, or several go without."""
    assert build_command(tmp_path / "job.json", 1)[1:4] == ["-m", "trainer", "--die-with"]
    assert build_command(tmp_path / "job.json", 3)[1:] == [
        "-m", "trainer.torchrun_agent", str(os.getpid()), "3", "train", str(tmp_path / "job.json"),
        "--standalone", "--nproc-per-node", "3",
    ]  # fmt: skip
    two = Nodes(count=2, rank=1, rendezvous="first:29500")
    for processes in (1, 3):
        agent = build_command(tmp_path / "job.json", processes, two)
        assert agent[2] == "trainer.torchrun_agent" and agent[7:] == two.to_torchrun_arguments(processes)
    orphan = [sys.executable, "-m", "trainer", "--die-with", "1", "train", "nothing.json"]  # whose parent is not 1
    assert subprocess.run(orphan, cwd=ROOT, check=False).returncode == 1


@pytest.mark.parametrize(
    "nodes, said",
    [
        ({"count": 0}, "--nodes = 0 is out of range"),
        ({"count": 2, "rank": 2, "rendezvous": "first:1"}, "--node-rank 2 is not the number of one of 2 machines"),
        ({"count": 2}, "--rendezvous '' is not an address"),
        ({"count": 2, "rendezvous": "first"}, "give HOST:PORT of the first of the 2"),
    ],
)
def test_machines_that_are_none(nodes: dict[str, Any], said: str) -> None:
    """Fails if a wrong number or address is found out minutes later, by a time-out."""
    with pytest.raises(InputError, match=re.escape(said)):
        Nodes(**nodes)


def test_a_job_says_beforehand_what_it_repeats_and_is_refused_where_that_is_absurd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a job from a file repeats its text thousands of times without a word."""
    store, heard = put_store(tmp_path), list[Event]()
    monkeypatch.setattr(launch, "_run", lambda *arguments: None)
    long, longer = (small_job(store, tmp_path / "w", (PhaseSettings(steps=steps, batch=8),)) for steps in (900, 10**6))
    train(long, heard.append)
    [warning] = heard
    assert warning["event"] == "warning" and "times. Where tokens are masked" in warning["message"]
    with pytest.raises(InputError, match="without max_epochs 1,000 is the most"):
        train(longer)
