"""Training as processes of its own: started, listened to, and ended with this one. No torch.

    this process ─► torchrun's agent ─► one rank a GPU          (a single rank is started without the agent)

Promise: when a process of this chain is gone, however it went, those it started are gone within a moment: each has the
kernel kill it when its parent dies, before it imports anything that takes time. One work folder trains once at a time;
a second caller waits for the first, and finds the model finished. A model whose export is whole is finished, however
the processes end after it.

A signal to the first of these processes reaches every rank. Ranks that train end their step, write a checkpoint and
leave; the agent waits for that as long as it takes, where torchrun by itself kills them after 30 seconds.
"""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from corpora.errors import InputError
from corpora.store.checked_folder import check_files
from corpora.store.damage import Damaged
from corpora.store.file_check import open_checked_bytes
from corpora.store.places.files import explain_write_errors, hold_lock
from corpora.store.places.place import Place
from trainer.jobs.job import CACHE, JOB, TrainingJob
from trainer.jobs.repeats import reads_of, refuse_repeats, repeat_warning
from trainer.launching.commands import (
    ALONE,
    Nodes,
    command,
    environment,
    events,
    failure,
    how_ended,
    lines_after,
    mendable,
    processes_of,
)
from trainer.launching.copies import with_local_shards, without_copy
from trainer.launching.stopping import Stop
from trainer.metrics import Event
from trainer.settings.training import TrainingSettings

LOG = "train.log"


class TrainingFailed(Exception):
    """The trainer ended for a reason that the user cannot fix; the end of its log says which."""


def train(
    job: TrainingJob,
    on_event: Callable[[Event], None] = lambda event: None,
    stop: Stop | None = None,
    nodes: Nodes = ALONE,
) -> None:
    """Train until the export is finished; if it already is, with every byte as it was written, do nothing.

    A damaged export is reported as an event, and written again from the newest checkpoint.
    on_event: called with every event of `trainer.metrics`, on this thread
    stop:     stops it from another thread; then this raises TrainingFailed
    nodes:    the machines that train it together, each of which calls this; the first one hears the events
    Raises InputError with the trainer's own message where the user can fix the problem (Damaged where a shard is not
    what was written), else TrainingFailed.
    """
    work = Path(job.work)
    with ExitStack() as alone:
        with explain_write_errors(job.work):
            work.mkdir(parents=True, exist_ok=True)
            alone.enter_context(
                hold_lock(work / f"lock{nodes.suffix}")
            )  # of several that are to train this model, one does
        if not _finished(job, on_event):
            reads = [*reads_of(job)]
            refuse_repeats(reads, job.training)
            if warning := repeat_warning(reads):
                on_event({"event": "warning", "step": 0, "message": warning})
            here = job if Place(job.store).is_local else with_local_shards(job, CACHE.expanduser() / "shards")
            path = work / JOB.replace(".", f"{nodes.suffix}.")
            with explain_write_errors(str(path)):
                path.write_text(here.to_json(), encoding="utf-8")
            try:
                _run(path, job, on_event, stop or Stop(), nodes)
            except (Damaged, TrainingFailed) as failed:
                damage = failed if isinstance(failed, Damaged) else _damaged_shard(here)
                if damage is not None and here is not job:
                    raise without_copy(Place(here.store), damage) from failed
                if damage is not None and damage is not failed:
                    raise damage from failed
                raise


def _damaged_shard(job: TrainingJob) -> Damaged | None:
    """Return a damaged file of the shards that explains why ranks failed, if any. Reads all of them."""
    for shards in job.shard_sets:
        parts = [part for part in shards.parts if not job.elsewhere or part.labels.get("split") != job.elsewhere]
        for path, file in ((f"{shards.stage_folder}/{file.path}", file) for part in parts for file in part.files):
            try:
                with open_checked_bytes(Place(job.store), path, file):
                    pass
            except Damaged as damage:
                return damage
    return None


def _finished(job: TrainingJob, on_event: Callable[[Event], None]) -> bool:
    """Tells whether the export is complete. Reads all of it, at 10 GB a second where the system has it in memory."""
    try:
        facts = job.read_export()
        if facts is not None:
            check_files(job.export, facts["files"])
    except Damaged as damage:
        fault = f"The export {job.export} is damaged: {damage.path}: {damage.what}."
        message = f"{fault} It is written again from the newest checkpoint."
        on_event({"event": "damaged", "step": job.training.steps, "message": message})
        return False
    return facts is not None


def _run(path: Path, job: TrainingJob, on_event: Callable[[Event], None], stop: Stop, nodes: Nodes) -> None:
    """Start the processes and listen to them until they end. Nothing of them outlives this call."""
    log_path = path.with_name(LOG.replace(".", f"{nodes.suffix}."))
    with explain_write_errors(str(log_path)):
        log_path.touch()
    begin = log_path.stat().st_size
    code = run_trainer(path, log_path, job.training, on_event, stop, nodes)
    if code and not _finished(job, on_event):
        raise TrainingFailed(failure(log_path, begin, code))
    if code:
        with log_path.open("a", encoding="utf-8") as log:
            log.write(f"The trainer {how_ended(code)} after the export was complete: the model is finished.\n")


def run_trainer(
    path: Path,
    log_path: Path,
    training: TrainingSettings,
    on_event: Callable[[Event], None],
    stop: Stop,
    nodes: Nodes = ALONE,
    does: Sequence[str] = ("train",),
) -> int:
    """Run a command of the trainer on a job's file in processes of its own until they end; return the exit code.

    log_path: where all is appended that is no event; does: the command, and its arguments after the file
    Raises InputError with the trainer's own message where the user can fix the problem.
    """
    processes = processes_of(training)
    failures: list[InputError] = []
    with explain_write_errors(str(log_path)):
        opened = log_path.open("ab", buffering=0)
    with opened as log:
        process = subprocess.Popen(
            [*command(path, processes, nodes, does[0]), *does[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(training, processes),
            start_new_session=True,  # an interrupt from the keyboard is ours to answer
        )
        assert process.stdout is not None
        try:
            stop.started(process)
            for event in events(process.stdout, log):
                if event["event"] == "failure":
                    failures.append(_input_error(event))
                else:
                    on_event(event)
            code = process.wait()
        finally:
            stop.end()
            process.stdout.close()
    if failures:
        raise failures[0]
    return code


def ended(log_path: Path, begin: int, code: int) -> Exception:
    """Return the error of a trainer that ended with an exit code, whose log begins at a byte."""
    return mendable(code, lines_after(log_path, begin)) or TrainingFailed(failure(log_path, begin, code))


def _input_error(event: Event) -> InputError:
    """Return the error that a rank raised and the user can fix."""
    if "path" in event:
        return Damaged(str(event["path"]), str(event["what"]))
    return InputError(str(event["message"]))
