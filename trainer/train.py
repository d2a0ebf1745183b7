"""The training loop: starts from a checkpoint or initial weights, runs the steps of every phase, and exports the model.

    resume ─► for each phase ─► for each step: micro-batches, forward, backward, clip, optimizer;
                                               a log line, an evaluation and a checkpoint if due
           ─► export

Pre-training (`pretrain.py`) and fine-tuning (`tasks/finetuning/finetune.py`) both call `train`. Each provides a model,
and functions that yield steps, evaluate and export, and so determines the examples of a step and the best score.
Watchers (`watch.py`) see each step without changing what the model learns. They may end the run: if a value is not
finite, they raise InputError before a checkpoint could store it.

Promise: on CPUs with the same number of processes, an interrupted run ends with the same weights as an uninterrupted
one, bit for bit. At a stop signal (SIGTERM or Ctrl-C), the current step is completed. An evaluation that is due may
then be completed or stopped; in the latter case it is repeated after resuming. All processes exit after the same step,
with a checkpoint if any step was completed.

Promise: no step waits for the device unless it evaluates, saves or stops. In float16 every step waits, to detect
overflows.

Names of tensors with dimensions end in their shape. T is the number of loss terms.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch

from corpora.generic_types import Json
from corpora.store.randomness import compute_keys
from trainer.auto_settings import ComputeChoice
from trainer.checkpoints.folders import CheckpointFacts, Checkpoints, Cursor
from trainer.learn import Step, StepResult, TrainState, compute_gradient_norm
from trainer.metrics import MetricsLog, print_event
from trainer.optimizers import set_learning_rate, set_weight_decay
from trainer.ranks import FIRST_STEPS, Ranks, StopSignal
from trainer.settings.phases import Stretch
from trainer.settings.training import TrainingSettings
from trainer.step_log import StepReport, StepReports, Watcher, pause_training


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a run: consecutive steps with the same weight decay and source of examples.

    Attributes:
        number: Zero-based index of the phase.
        first: The number of steps of the run before the phase.
        end: The number of steps of the run up to the end of the phase.
        weight_decay: The weight decay of matrices; vectors have none.
        schedule: The learning-rate schedule, by step of the run. Consecutive phases may share a schedule.
    """

    number: int
    first: int
    end: int
    weight_decay: float
    schedule: Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The settings and services that a training run uses in addition to the model's state.

    Attributes:
        settings: The settings of all steps, with each "auto" resolved.
        choice: The precision, compilation and TF32 of all steps.
        identity: Everything that affects the weights, as stored in checkpoints.
        ranks: This process among all processes.
        log: Receives the events of the run.
        stop: Tracks whether a signal requested a stop.
        checkpoints: Writes and reads the checkpoints of the run.
        watchers: Called at each step, in this order. They do not change what the model learns.
        describe_line: Returns the fields of a step's line in the log.
        find_cursor: Maps a number of completed steps to the position of the run.
        describe_progress: Returns additional data that a checkpoint needs to resume. All processes call it.
        checked_steps: The number of first steps that are reported even without a line in the log, so that watchers can
            stop a run that cannot succeed.
    """

    settings: TrainingSettings
    choice: ComputeChoice
    identity: Mapping[str, Json]
    ranks: Ranks
    log: MetricsLog
    stop: StopSignal
    checkpoints: Checkpoints
    watchers: Sequence[Watcher]
    describe_line: Callable[[StepReport], Mapping[str, Any]]
    find_cursor: Callable[[int], Cursor]
    describe_progress: Callable[[], dict[str, Json]]
    checked_steps: int = 0


# Yields the steps of a phase, given how many steps of the run are done. It may end before the phase does, if a task no
# longer improves; what is due at the end of a phase is then left out.
ReadSteps = Callable[[Phase, int], Generator[Step, None, None]]
# Returns scores for the log; None if a stop signal came to any process, or if there is nothing to evaluate on.
Evaluate = Callable[[Phase, TrainState], Mapping[str, Any] | None]
Export = Callable[[TrainState], None]


def train(
    run: Run,
    state: TrainState,
    phases: Sequence[Phase],
    read_steps: ReadSteps,
    evaluate: Evaluate,
    export: Export | None,
    resume_from: CheckpointFacts | None,
    evaluates_first: bool = False,
) -> None:
    """Train through all phases and export the model, or stop after a signal. All processes must call it.

    Args:
        run: The settings and services of the run.
        state: The model with its initial weights, and its optimizer. Both are changed in place.
        phases: The phases in order. Each begins where the previous one ends.
        read_steps: Yields the steps of a phase, starting after the given number of completed steps of the run.
        evaluate: Returns the scores of the model, which are written to the log; None if there are none.
        export: Writes the finished model; None if the caller trains another model afterwards.
        resume_from: The checkpoint to resume from; None to start from the beginning.
        evaluates_first: True to evaluate before the first step, unless the run is resumed.

    Raises:
        InputError: If the loss or the gradient is not finite, or if a watcher refuses to continue.
    """
    settings, ranks, stop, watchers = run.settings, run.ranks, run.stop, run.watchers
    reports = StepReports(run.log, ranks, state.model.terms, watchers, run.describe_line)
    weights_T = torch.tensor([term.weight for term in state.model.terms], device=ranks.device)

    # Resume, or begin. Each process draws dropout from torch's generator, seeded by its rank; a checkpoint that as many
    # processes wrote restores it.
    if resume_from is None:
        state.steps_done, owes_evaluation = phases[0].first, evaluates_first
    else:
        run.checkpoints.load(resume_from, state)
        owes_evaluation = is_evaluation_missing(run, find_phase(phases, state.steps_done), state.steps_done)
    if resume_from is None or resume_from.ranks != ranks.count:
        torch.manual_seed(int(compute_keys(settings.seed, "dropout", state.steps_done, ranks.rank)))
    begun_at, waits_long = state.steps_done, True

    for phase in phases:
        if owes_evaluation and state.steps_done <= phase.end:
            run_evaluation(run, phase, state, evaluate)
            owes_evaluation = False
        if state.steps_done >= phase.end or stop.is_requested:
            continue
        state.steps_done = max(state.steps_done, phase.first)  # the phase before may have ended early
        set_weight_decay(state.optimizer, phase.weight_decay)

        with closing(read_steps(phase, state.steps_done)) as steps:
            for step in steps:
                ranks.record_position(f"in step {step.number}")

                # Forward and backward. The summed loss of a term is divided by its count in the whole step, over all
                # processes, so the gradient does not depend on how the step is cut. Gradients add up in place, and
                # over the processes with the last micro-batch.
                divisors_T = step.divisors.to(ranks.device, non_blocking=True)
                sums = []
                for number, micro_batch in enumerate(step.micro_batches, 1):
                    state.sharded.begin_micro_batch(is_last=number == len(step.micro_batches))
                    sums_T2 = state.model(micro_batch.batch.to(ranks.device))  # of each term: losses, right answers
                    loss = (sums_T2[:, 0] * weights_T / divisors_T).sum() * state.scale.factor
                    loss.backward()
                    sums.append(sums_T2.detach())

                # Clip (Pascanu et al. 2013). In float16 the gradient is of the scaled loss, so it is scaled back first.
                if state.scales_loss:
                    state.scale.unscale(state.parameters)
                norm = compute_gradient_norm(state.parameters)  # over all parameters and processes
                if settings.clip_norm:
                    torch.nn.utils.clip_grads_with_norm_(state.parameters, settings.clip_norm, norm)

                # Change the weights. In float16 a step whose gradient overflowed is left out, by all processes alike.
                rate = phase.schedule.compute_rate(state.steps_done)
                set_learning_rate(state.optimizer, rate)
                is_sound = not state.scales_loss or bool(norm.isfinite())  # in float16 this waits for the device
                if is_sound:
                    state.optimizer.step()
                if state.scales_loss:
                    state.scale.update(is_sound)
                state.optimizer.zero_grad()

                # Report. On a GPU this finishes the report of the step before: its numbers have arrived meanwhile.
                reports.flush()
                state.steps_done += 1
                ranks.record_position(f"after step {state.steps_done}")
                if waits_long and state.steps_done >= begun_at + FIRST_STEPS:  # compiling is over by now
                    ranks.wait_no_longer_than(settings.timeout_seconds)
                    waits_long = False
                scale = state.scale.factor if state.scales_loss else None
                result = StepResult(step=step, phase=phase.number, rate=rate, sums=sums, norm=norm, loss_scale=scale)
                for watcher in watchers:
                    watcher.on_step(result, state)
                is_logged = is_due(settings.log_every, state.steps_done, phase.end)
                if is_logged or state.steps_done <= run.checked_steps:  # watchers see the first steps in any case
                    reports.begin(result, is_logged)

                # Evaluate, save, stop. All processes agree whether a signal came to any of them.
                if is_due(settings.evaluate_every, state.steps_done, phase.end):
                    reports.flush()
                    run_evaluation(run, phase, state, evaluate)
                if is_saved := is_checkpoint_due(run, state.steps_done, phase.end):
                    reports.flush()
                    save_checkpoint(run, state)
                finish_checkpoint(run, wait=False)
                if stop.ask_all():
                    reports.flush()
                    if ranks.rank == 0:
                        print_event({"event": "stopping", "step": state.steps_done})
                    if not is_saved:
                        save_checkpoint(run, state)
                    break

    finish_checkpoint(run, wait=True)
    if export is not None and not stop.is_requested:
        with pause_training(watchers):
            export(state)
        if ranks.rank == 0:
            run.checkpoints.clear_damaged()


def split_phases(settings: TrainingSettings) -> list[Phase]:
    """Build the phases of a run from its settings, each with its steps, weight decay and learning-rate schedule."""
    ends = accumulate(phase.steps for phase in settings.phase)
    stretches = settings.stretches
    return [
        Phase(
            number=number,
            first=first,
            end=end,
            weight_decay=settings.get_weight_decay(number),
            schedule=next(stretch for stretch in reversed(stretches) if stretch.first <= first),
        )
        for number, (first, end) in enumerate(pairwise([0, *ends]))
    ]


def find_phase(phases: Sequence[Phase], steps_done: int) -> Phase:
    """Find the phase that contains the last completed step of a run.

    `steps_done` is the number of completed steps, which must not exceed the run's.
    """
    return next(phase for phase in phases if steps_done <= phase.end)


def is_evaluation_missing(run: Run, phase: Phase, steps_done: int) -> bool:
    """Return True if an evaluation was due after a step but is not in the log because a signal stopped it.

    All processes must call it. They return the result of the first process, which has the log.

    Args:
        run: The settings and services of the run.
        phase: The phase of the step.
        steps_done: The number of completed steps of the run.
    """
    was_due = is_due(run.settings.evaluate_every, steps_done, phase.end)
    [is_missing, *_] = run.ranks.collect(was_due and not run.log.has_event("evaluation", steps_done))
    return is_missing  # as the first process says, which has the log


def run_evaluation(run: Run, phase: Phase, state: TrainState, evaluate: Evaluate) -> None:
    """Run an evaluation, and write the scores to the log. All processes must call it.

    If a signal stops the evaluation, nothing is logged. The evaluation is repeated when the run is resumed.

    Args:
        run: The settings and services of the run.
        phase: The phase of the last step.
        state: The model.
        evaluate: Returns the scores, or None if there are none.
    """
    run.ranks.record_position(f"in the evaluation after step {state.steps_done}")
    with pause_training(run.watchers):
        began = time.monotonic()
        scores = evaluate(phase, state)
        if scores is not None:
            run.log.write_event("evaluation", state.steps_done, **scores, seconds=round(time.monotonic() - began, 3))


def save_checkpoint(run: Run, state: TrainState) -> None:
    """Write a checkpoint of the state after the last step. All processes must call it.

    On a GPU, training continues while the checkpoint is being written. If a previous checkpoint is still being written,
    it is finished first. If the state must not be kept, a watcher raises an error before anything is written.
    """
    run.ranks.record_position(f"before the checkpoint of step {state.steps_done}")
    in_background = run.settings.async_checkpoints and run.ranks.computes_ahead  # a processor cannot do both
    with pause_training(run.watchers):
        run.log.flush()  # a checkpoint presumes that everything up to its step is in the log
        saved = CheckpointFacts(
            cursor=run.find_cursor(state.steps_done),
            loss_scale=(state.scale.factor, state.scale.good_steps),
            ranks=run.ranks.count,
            identity=run.identity,
            choice=run.choice,
            progress=run.describe_progress(),
        )
        finish_checkpoint(run, wait=True)  # one is written at a time
        run.checkpoints.begin(state, saved, copies=in_background)
        finish_checkpoint(run, wait=not in_background)


def finish_checkpoint(run: Run, wait: bool) -> None:
    """Log the checkpoint in progress if it is complete. If `wait` is True, first wait until it is."""
    if written := run.checkpoints.take_written(wait):
        seconds = {"seconds": round(written.seconds, 3), "wait_seconds": round(written.wait_seconds, 4)}
        run.log.write_event("checkpoint", written.step, name=written.name, **seconds)


def is_checkpoint_due(run: Run, steps_done: int, end: int) -> bool:
    """Return True if a checkpoint is due, either by the number of completed steps or by the first process's clock.

    All processes must call it if `checkpoint_minutes` is set.

    Args:
        run: The settings and services of the run.
        steps_done: The number of completed steps of the run.
        end: The number of completed steps at the end of the phase.
    """
    if is_due(run.settings.checkpoint_every, steps_done, end) or steps_done in run.checkpoints.kept_steps:
        return True
    seconds = run.settings.checkpoint_minutes * 60
    is_late = run.ranks.rank == 0 and time.monotonic() - run.checkpoints.begun_at >= seconds
    return bool(seconds) and run.ranks.reduce_any(is_late)


def is_due(every: int, steps_done: int, end: int) -> bool:
    """Return True at the end of a phase, and whenever the number of completed steps is a multiple of `every`.

    If `every` is 0, only the end of the phase counts.

    >>> is_due(10, 20, end=25), is_due(10, 25, end=25), is_due(0, 20, end=25), is_due(0, 25, end=25)
    (True, True, False, True)
    """
    return steps_done == end or bool(every and steps_done % every == 0)
