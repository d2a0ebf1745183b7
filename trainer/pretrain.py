"""Pre-training: reads a job's shards, and writes checkpoints and a model folder. The training loop is in `train.py`.

    job ─► settings for this machine ─► model with initial weights ─► feed, evaluation ─► train ─► export

Promise: the examples that a step reads, and their masks, depend only on the seed, the shards and the step, not on the
number of processes or on how often the run was interrupted. On CPUs with the same number of processes, an interrupted
run ends with the same weights as an uninterrupted one, bit for bit. With another number, weights differ by rounding,
and by dropout if there is any. On GPUs, weights always differ by rounding, unless `deterministic` is set
(`compute.py`).

Promise: no checkpoint or export depends on a damaged shard. Shards are verified while they are read
(`shards/reading/files/columns.py`), and everything that was read is verified before a checkpoint or an export is
written. If a shard is damaged, all processes stop with the same message.
"""

import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import describe_files, list_files, write_complete_file
from corpora.store.damage import Damaged
from corpora.store.places.files import to_unfinished_path
from shards.reading.loader import TALLY_NAMES
from trainer.checkpoints.folders import Checkpoints, Cursor, gather_weights
from trainer.compute import compute_reproducibly, explain_torch_errors, hold_num_threads, resolve_auto
from trainer.evaluation import evaluate_held_out
from trainer.feed import Feed
from trainer.huggingface.checkpoints import export
from trainer.initial_weights import build_initial_model
from trainer.job import TrainingJob, list_readings
from trainer.learn import STEP_COUNTS, Step, StepResult, TrainState, build_state
from trainer.metrics import MetricsLog, print_event
from trainer.ranks import PeersLost, Ranks, StopSignal, join_process_group
from trainer.settings.training import find_decay_starts
from trainer.step_log import StepReport, Watcher, describe_counts, name_counts
from trainer.tensorboard import TensorBoard
from trainer.train import Phase, Run, find_phase, split_phases, train
from trainer.watch import FirstSteps, NonFinite, Speed

CHECKED_STEPS = 8  # first steps of a run that are looked at one by one
OF_TEACHER = {"soft", "cosine"}  # terms of a student's loss
MAX_NAMED = 16  # examples of a shard set


def main(arguments: list[str]) -> int:
    """Run pre-training for a job file, as the command `train JOB.json` does.

    Returns:
        The exit code: 0 on success; 2 if the user can fix the problem, which a "failure" event describes; 1 if another
            process did not respond; 128 plus the signal number if a signal stopped the run, after writing a checkpoint.

    Raises:
        InputError: If the file does not exist or does not contain a job.
    """
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("train takes the path of a job's JSON file, as the training stage writes it.")
    job = TrainingJob.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    settings = job.training
    try:
        with (
            join_process_group(settings.device) as ranks,
            explain_torch_errors(settings, ranks.count, ranks.device.type),
        ):
            return pretrain(job, ranks)
    except InputError as error:
        of_file = {"path": error.path, "what": error.what} if isinstance(error, Damaged) else {}
        print_event({"event": "failure", "message": str(error), **of_file})
        return 2
    except PeersLost as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 1


def pretrain(job: TrainingJob, ranks: Ranks) -> int:
    """Train the model of a job from its start or from its newest checkpoint, and export it. All processes must call it.

    Args:
        job: The job.
        ranks: This process among all processes.

    Returns:
        The exit code: 0, or 128 plus the signal number if a signal stopped the run.

    Raises:
        InputError: If training is impossible with the settings, the shards or a checkpoint, or if a loss or gradient is
            not finite.
        Damaged: If a shard is damaged.
    """
    compute_reproducibly(job.training, ranks.device)
    work = Path(job.work)
    work.mkdir(parents=True, exist_ok=True)
    board = TensorBoard(work) if job.training.tensorboard and ranks.rank == 0 else None
    log, stop = MetricsLog(work, ranks.rank == 0, board), StopSignal(ranks)
    checkpoints = Checkpoints(work, job.training.keep_checkpoints, ranks)
    resume_from, faults = checkpoints.find_newest(lambda path, facts: job.check_identity(str(path), facts["identity"]))
    before = None if resume_from is None else resume_from.choice
    settings, choice, computes = resolve_auto(job.training, job.model, ranks, before)
    phases = split_phases(settings)

    # The model, with first weights or those of a folder.
    model, where_from = build_initial_model(job, resumes=resume_from is not None)
    state = build_state(model, settings, ranks)

    # What gives it examples, and what looks at it.
    shards, read_counts, speed = PhaseShards(job, ranks), ReadCounts(job, ranks), Speed(settings, ranks)

    def read_steps(phase: Phase, done: int) -> Generator[Step, None, None]:
        feed = shards.open(phase.number)
        with closing(feed.iter_steps(done - phase.first, find_cursor(job, done).slot, done)) as steps:
            yield from speed.count_waiting(steps)

    def evaluate(phase: Phase, state: TrainState) -> Mapping[str, Any] | None:
        scores = evaluate_held_out(state.model, shards.open(phase.number), ranks, stop)
        return None if scores is None else {"phase": phase.number, **scores}

    def explain_divergence(step: int, micro_batch: int) -> InputError:
        phase = find_phase(phases, step)
        feed, place = shards.open(phase.number), (step - 1 - phase.first, find_cursor(job, step - 1).slot)
        of_loss = ranks.collect(feed.locate_examples(*place, micro_batch) if micro_batch >= 0 else {})
        is_of_loss = any(of_loss)
        examples = describe_examples(job.store, of_loss if is_of_loss else [feed.locate_examples(*place)], is_of_loss)
        return InputError(
            f"The gradient is no longer finite at step {step} (learning rate "
            f"{phase.schedule.compute_rate(step - 1):.3g}, precision {settings.precision}): lower "
            "training.learning_rate, raise training.warmup_steps, or set training.clip_norm. Checkpoints are from "
            f"before this step. {examples}"
        )

    watchers: list[Watcher] = [NonFinite(ranks, explain_divergence), speed, shards, read_counts]
    if checked_steps := min(CHECKED_STEPS, settings.steps) if settings.health_checks else 0:
        terms = [term.name for term in state.model.terms]
        is_new, warmup = has_new_weights(job, terms), settings.warmup_steps
        watchers.append(
            FirstSteps(ranks, log, job.inputs, terms, new_weights=is_new, warmup=warmup, last=checked_steps)
        )
    checkpoints.kept_steps = find_decay_starts(
        job.training
    )  # another run may continue from there, before the rate falls
    run = Run(
        settings=settings,
        choice=choice,
        identity=job.identity,
        ranks=ranks,
        log=log,
        stop=stop,
        checkpoints=checkpoints,
        watchers=watchers,
        describe_line=describe_line,
        find_cursor=partial(find_cursor, job),
        describe_progress=read_counts.to_json,
        checked_steps=checked_steps,
    )

    # The log says how the run begins. What it says of steps after the checkpoint is cut off: they are done again.
    machine: dict[str, Any] = {"processes": ranks.count, "device": ranks.device.type, "computes": computes}
    log.cut(-1 if resume_from is None else resume_from.cursor.step)
    if resume_from is None:
        begins = {"message": where_from} if where_from else {}
        if job.origin is not None:
            checkpoints.continue_from(job.origin, state)
            begins = {"continues": job.origin.path, **begins}
        log.write_event("start", 0, steps=settings.steps, parameters=state.num_parameters, **machine, **begins)
    else:
        assert resume_from.cursor == find_cursor(job, resume_from.cursor.step), "slots follow from the step"
        read_counts.restore(resume_from.progress)
        log.write_event("resume", **asdict(resume_from.cursor), **machine)
    for fault in faults:
        log.write_event("damaged", 0 if resume_from is None else resume_from.cursor.step, message=fault)

    longest = max(job.read_shard_set(each).facts["length"] for reading in list_readings(job) for each in reading.inputs)
    threads = hold_num_threads(settings, job.model, longest, ranks)
    with checkpoints.wait_at_end(), stop.hold_signals(), threads:
        train(
            run,
            state,
            phases,
            read_steps=read_steps,
            evaluate=evaluate,
            export=lambda state: export_model(job, state, ranks, log, read_counts),
            resume_from=resume_from,
            evaluates_first=job.start is not None,  # to compare with the model that training begins with
        )
    return stop.exit_code


def export_model(job: TrainingJob, state: TrainState, ranks: Ranks, log: MetricsLog, read_counts: "ReadCounts") -> None:
    """Export the trained model to the job's export folder. All processes must call it.

    The folder appears only when complete.

    Args:
        job: The job.
        state: The trained model.
        ranks: This process among all processes.
        log: Receives an event about the export.
        read_counts: The counts of everything that the run has read, which are stored with the model.
    """
    weights, read = gather_weights(state.model), read_counts.to_json()
    facts = {"steps": state.steps_done, "parameters": state.num_parameters, "seen": read["seen"], **read["counts"]}
    if ranks.rank == 0:
        new = to_unfinished_path(job.export, is_only_writer=True)
        for folder in (new, job.export):
            shutil.rmtree(folder, ignore_errors=True)
        new.mkdir()
        export(new, weights, job.model, job.inputs)
        write_complete_file(new, {"identity": job.identity, **facts}, describe_files(new, list_files(new)))
        new.rename(job.export)
    ranks.wait()
    log.write_event("done", state.steps_done, parameters=state.num_parameters, **read["counts"])


def describe_line(report: StepReport) -> dict[str, Any]:
    """Build the fields of a step's line in the pre-training log: phase, losses, learning rate and counts."""
    result = report.result
    scale = {} if result.loss_scale is None else {"loss_scale": result.loss_scale}
    rates = {"learning_rate": result.rate, "gradient_norm": report.norm, **scale}
    return {"phase": result.phase, **report.losses, **rates, **describe_counts(result.step.counts)}


def find_cursor(job: TrainingJob, steps_done: int) -> Cursor:
    """Find the position of a run after a number of steps: the phase, and the slot (position in the training order).

    A phase continues at the slot where the previous phase on the same shards stopped.
    """
    phases, done = job.training.phase, steps_done
    for phase, (settings, reading) in enumerate(zip(phases, list_readings(job), strict=True)):
        if done < settings.steps or phase == len(phases) - 1:
            first = reading.begins[0] if len(reading.inputs) == 1 else 0  # a mixture's slots are the phase's own
            return Cursor(phase=phase, step=steps_done, slot=first + settings.count_slots_before(done))
        done -= settings.steps
    raise AssertionError("a run has a phase")


class PhaseShards(Watcher):
    """Opens the shards of one phase at a time, and verifies the data that was read before a result is stored."""

    def __init__(self, job: TrainingJob, ranks: Ranks) -> None:
        self._job, self._ranks = job, ranks
        self._phase = -1
        self._feed: Feed | None = None

    def open(self, phase: int) -> Feed:
        """Open the shards of a phase, and return the feed that reads them. All processes must call it.

        The data read in the previous phase is verified first, and Damaged is raised if it is damaged. `phase` is
        zero-based.
        """
        if self._feed is None or phase != self._phase:
            self.on_pause()
            self._phase, self._feed = phase, Feed(self._job, phase, self._ranks)
        return self._feed

    def on_pause(self) -> None:
        """Verify what was read so far, and raise Damaged on all processes if any of them has read a damaged shard."""
        mine: tuple[str, str] | None = None
        try:
            if self._feed is not None:
                self._feed.check_read()
        except Damaged as damage:
            mine = damage.path, damage.what
        for each in self._ranks.collect(mine):
            if each is not None:
                raise Damaged(*each)


class ReadCounts(Watcher):
    """Counts what a run has read: in total, and by phase and shard set. Counts continue after a resume."""

    def __init__(self, job: TrainingJob, ranks: Ranks) -> None:
        self._ranks = ranks
        self._counts = np.zeros(len(STEP_COUNTS), np.int64)  # of all processes
        sets = [len(job.get_inputs(phase)) for phase in range(len(job.training.phase))]
        self._tallies = [np.zeros((number, len(TALLY_NAMES)), np.int64) for number in sets]  # of this process

    def on_step(self, result: StepResult, state: TrainState) -> None:
        """Add the counts of a step to the counts of the run."""
        self._counts += result.step.counts[: len(STEP_COUNTS)]
        for micro_batch in result.step.micro_batches:
            self._tallies[result.phase] += micro_batch.tallies

    def to_json(self) -> dict[str, Json]:
        """Convert the counts to a JSON object for a checkpoint. All processes must call it, because counts are summed.

        The keys are "counts", with the counts of the whole run by name, and "seen", with the tallies by phase and shard
        set, in the order of `TALLY_NAMES`.
        """
        whole = [self._ranks.sum_ints(tallies.ravel().tolist()) for tallies in self._tallies]
        seen = [np.reshape(numbers, (-1, len(TALLY_NAMES))).tolist() for numbers in whole]
        return {"counts": name_counts(self._counts), "seen": seen}

    def restore(self, progress: Mapping[str, Any]) -> None:
        """Restore the counts from the `progress` of a checkpoint, which contains what `to_json` returned."""
        self._counts = np.array([progress["counts"][name] for name in STEP_COUNTS], np.int64)
        if self._ranks.rank == 0:  # the sum over all processes is that of the run
            self._tallies = [np.array(tallies, np.int64) for tallies in progress["seen"]]


def has_new_weights(job: TrainingJob, terms: Sequence[str]) -> bool:
    """Return True if a run starts with random weights, so without a start model and without a teacher's layers.

    `terms` are the names of the loss terms.
    """
    return job.start is None and not OF_TEACHER & {*terms}


def describe_examples(store: str, by_process: Sequence[Mapping[str, Sequence[int]]], of_loss: bool) -> str:
    """Describe the examples of a step in a sentence, with the command that shows the first of them.

    Args:
        store: Address of the store.
        by_process: The indices of the examples by the folder of their shards, one dictionary per process.
        of_loss: True if the loss of these examples was not finite; False if only the gradient was not.

    >>> describe_examples("store", [{"shards/small/0f": [14]}, {"shards/small/0f": [3]}], True)
    'Its loss was of the examples 3, 14 of shards/small/0f: cloze trace store/shards/small/0f 3'
    >>> describe_examples("my store", [{"shards/small/0f": [3]}], True)
    "Its loss was of the examples 3 of shards/small/0f: cloze trace 'my store/shards/small/0f' 3"
    """
    listed = []
    for folder in dict.fromkeys(folder for named in by_process for folder in named):
        numbers = sorted(number for named in by_process for number in named.get(folder, ()))
        more = f" and {len(numbers) - MAX_NAMED} more" if len(numbers) > MAX_NAMED else ""
        first = f"{', '.join(map(str, numbers[:MAX_NAMED]))}{more} of {folder}"
        listed.append(f"{first}: cloze trace {quote(f'{store}/{folder}')} {numbers[0]}")
    return f"{'Its loss was of' if of_loss else 'Its losses were finite; it read'} the examples {'; '.join(listed)}"
