"""Pre-training: phases of steps from shards, on any number of processes, from the newest checkpoint on.

    job ─► learner ─► the loop through the steps of every phase ─► export

Promise: the examples of a step and their masks are a function of the seed, the shards and the step, whatever the
number of processes and however often the run was killed or stopped. On the same number of processes, on processors,
an interrupted run ends with the very weights of an uninterrupted one; on another, with weights that differ by rounding,
and by dropout where there is any. On GPUs weights differ by rounding in any case, unless `deterministic` is asked for
(`parallel.py`).

Promise: no checkpoint and no export holds what was learnt from a shard that is not what was written. Shards are checked
as they are read (`shards/reading/files/columns.py`); what was read is checked before anything is written, and if a
shard is damaged all processes stop with the same paragraph.
"""

import itertools
import shutil
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Float64s, Int64s
from corpora.store.checked_folder import described, finish, names_in
from corpora.store.damage import Damaged
from corpora.store.places.files import unfinished
from shards.reading.loader import TALLIES
from trainer.huggingface.checkpoints import export
from trainer.jobs.job import TrainingJob, readings
from trainer.metrics import MetricsLog, line, speak
from trainer.settings.training import TrainingSettings, decays_begin, learning_rate
from trainer.tensorboard import TensorBoard
from trainer.training.checkpoints.folders import Checkpoints, Cursor, Saved, whole_state
from trainer.training.feed import Feed
from trainer.training.initial_weights import begun_model
from trainer.training.learner import STEP_COUNTS, Learner, MicroBatch, Step, set_weight_decay
from trainer.training.loop import Course, StopSignal, TrainingLoop
from trainer.training.parallel import PeersLost, Ranks, compute_reproducibly, joined, mendable, settle
from trainer.training.reports import (
    FirstSteps,
    Noted,
    Numbers,
    Speed,
    check_vocabulary,
    examples_said,
    joined_examples,
    line_counts,
    losses_of,
    named,
)


def main(arguments: list[str]) -> int:
    """Train as a job's file says; 0, or 2 where the user can fix what is wrong (a line of the output says it).

    Stopped by a signal: 128 and the signal, after a checkpoint.
    """
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("train takes the path of a job's JSON file, as the training stage writes it.")
    job = TrainingJob.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        with joined(job.training.device) as ranks, mendable(job.training, ranks.count, ranks.device.type):
            return pretraining(job, ranks).run().exit_code
    except InputError as error:
        of_file = {"path": error.path, "what": error.what} if isinstance(error, Damaged) else {}
        speak(line({"event": "failure", "message": str(error), **of_file}))
        return 2
    except PeersLost as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 1


def pretraining(job: TrainingJob, ranks: Ranks) -> TrainingLoop:
    """Return the loop of a job, on one of its processes. Raises InputError where the job cannot be done here."""
    compute_reproducibly(job.training, ranks.device)
    work = Path(job.work)
    work.mkdir(parents=True, exist_ok=True)
    shows = [TensorBoard(work)] if job.training.tensorboard and ranks.rank == 0 else []
    log = MetricsLog(work, ranks.rank == 0, shows)
    checkpoints = Checkpoints(work, job.training.keep_checkpoints, ranks)
    newest = checkpoints.newest(lambda path, facts: job.refuse_another(str(path), facts["identity"]))
    settings, choice, computes = settle(job.training, job.model, ranks, newest.choice)
    check_vocabulary(job)
    course = Phases(job, settings, ranks, log, computes, resumes=newest.saved is not None)
    return TrainingLoop(course, ranks, log, checkpoints, newest, choice)


class Phases(Course):
    """The phases of a job, one after another, on one of its processes."""

    def __init__(
        self,
        job: TrainingJob,
        settings: TrainingSettings,
        ranks: Ranks,
        log: MetricsLog,
        computes: str = "",
        resumes: bool = False,
    ) -> None:
        """settings: the job's, without "auto"; computes: the choice in a line; resumes: from a checkpoint"""
        self.job, self.settings, self.ranks, self.log = job, settings, ranks, log
        self.identity = job.identity
        self.kept = decays_begin(job.training)  # other runs may continue from here, before the rate falls
        model, self._begun = begun_model(job, resumes)
        self.learner = Learner.of(model, settings, ranks)
        self.first_steps = FirstSteps.of(job, self.learner.terms, ranks)
        self._computes = computes
        self._counts = np.zeros(len(STEP_COUNTS), np.int64)  # of the run
        sets = [len(job.inputs_of(phase)) for phase in range(len(job.training.phase))]
        self._tallies = [np.zeros((number, len(TALLIES)), np.int64) for number in sets]  # of this process, by phase
        self._phase = 0
        self._feed: Feed | None = None  # of the phase

    @property
    def feed(self) -> Feed:
        """Return the feed of the phase."""
        if self._feed is None:
            self._feed = Feed(self.job, self._phase, self.ranks, self.learner.flops)
        return self._feed

    def enter(self, phase: int) -> None:
        """Learn with the decay of a phase."""
        if phase != self._phase:
            self.check_read()
            self._phase, self._feed = phase, None
        set_weight_decay(self.learner.optimizer, self.settings.decay_in(phase))

    def begin(self, checkpoints: Checkpoints) -> None:
        """Take the weights and the optimizer of another run, where the job continues from one."""
        begins = {"message": self._begun} if self._begun else {}
        if self.job.origin is not None:
            checkpoints.go_on_from(self.job.origin, self.learner)
            begins = {"continues": self.job.origin.path, **begins}
        parameters = self.learner.num_parameters
        self.log.say("start", 0, steps=self.settings.steps, parameters=parameters, **self._machine(), **begins)

    def resume(self, saved: Saved) -> None:
        """Take up the counts."""
        assert saved.cursor == self.cursor(saved.cursor.step), "slots follow from the step"
        self._counts = np.array([saved.progress["counts"][name] for name in STEP_COUNTS], np.int64)
        if self.ranks.rank == 0:  # the sum over all processes is that of the run
            self._tallies = [np.array(tallies, np.int64) for tallies in saved.progress["seen"]]
        self.log.say("resume", **asdict(saved.cursor), **self._machine())

    def _machine(self) -> dict[str, Any]:
        return {"processes": self.ranks.count, "device": self.ranks.device.type, "computes": self._computes}

    def evaluates_first(self, step: int) -> bool:
        """Return whether the model is one of elsewhere, to be compared with what it was before."""
        return self.job.start is not None and step == 0

    def steps(self, done: int) -> Generator[Step, None, None]:
        """Yield the steps of a phase, one prepared ahead."""
        return self.feed.steps(done - self._before, self.cursor(done).slot, done)

    @property
    def _before(self) -> int:
        """Steps of the phases before."""
        return sum(phase.steps for phase in self.settings.phase[: self._phase])

    def learnt(self, step: Step) -> None:
        """Count what was read."""
        self._counts += step.counts[: len(STEP_COUNTS)]
        for micro_batch in step.micro_batches:
            self._tallies[self._phase] += micro_batch.tallies

    def line(self, noted: Noted, numbers: Numbers, losses: Mapping[str, float], speed: Speed) -> dict[str, Any]:
        """Return phase, losses, rates, counts and speed."""
        scale = {"loss_scale": self.learner.scale.factor} if self.learner.settings.precision == "float16" else {}
        rates = {"learning_rate": noted.rate, "gradient_norm": numbers.norm, **scale}
        counts, fast = line_counts(named(noted.step.counts.tolist())), speed.figures(noted.totals)
        return {"phase": self._phase, **losses, **rates, **counts, **fast}

    def evaluate(self, step: int, stop: StopSignal) -> None:
        """Log losses on the held-out split, where there is one, next to those of guessing each token by its frequency.

        Where it is stopped it is done when training resumes.
        """
        began, feed = time.monotonic(), self.feed
        parts = [self._judged(feed.held_out(component), stop) for component in range(len(feed.reading.inputs))]
        if stop.agreed:
            return
        whole = EvaluationSums(*(np.sum(of_parts, axis=0) for of_parts in zip(*parts, strict=True)))
        if self.ranks.rank == 0 and whole.guessed.any():
            guessed = {
                "unigram_entropy": cross_entropy(whole.guessed, whole.guessed),
                "unigram_loss": cross_entropy(whole.guessed, feed.token_counts + 1),  # no token is impossible
            }
            figures = {**self._figures(whole), **guessed}
            if len(parts) > 1:
                names = [shards.name for shards in feed.reading.inputs]
                figures["components"] = {name: self._figures(part) for name, part in zip(names, parts, strict=True)}
            seconds = round(time.monotonic() - began, 3)
            self.log.say("evaluation", step, phase=self._phase, **figures, seconds=seconds)

    def _judged(self, held_out: Iterator[MicroBatch], stop: StopSignal) -> "EvaluationSums":
        heard = itertools.takewhile(lambda _: not stop.agree(), held_out)
        return EvaluationSums(*(tensor.cpu().numpy() for tensor in self.learner.judge(heard)))

    def _figures(self, judged: "EvaluationSums") -> dict[str, Any]:
        divisors = judged.counts[len(STEP_COUNTS) :].tolist()
        right, words = judged.words.tolist()
        of_words = {"rare_word_accuracy": right / words, "rare_words": words} if words else {}
        losses = losses_of(judged.sums.tolist(), divisors, self.learner.terms)
        return {
            **losses,
            **self.learner.model.figures(judged.measures),
            **of_words,
            **line_counts(named(judged.counts.tolist())),
        }

    def check_read(self) -> None:
        """Raise Damaged on all processes, which must all call it, if one of them read a damaged shard."""
        mine: tuple[str, str] | None = None
        try:
            if self._feed is not None:
                self._feed.check_read()
        except Damaged as damage:
            mine = damage.path, damage.what
        for each in self.ranks.collect(mine):
            if each is not None:
                raise Damaged(*each)

    def diverged(self, step: int, micro_batch: int) -> InputError:
        """Return the refusal, which names the examples of the step."""
        cursor = self.cursor(step - 1)
        place = step - 1 - self._before, cursor.slot
        mine = self.feed.examples(*place, micro_batch) if micro_batch >= 0 else {}
        of_loss = joined_examples(self.ranks.collect(mine))
        return InputError(
            f"The gradient is no longer finite at step {step} (learning rate "
            f"{learning_rate(step - 1, self.settings):.3g}, precision {self.learner.settings.precision}): lower "
            "training.learning_rate, raise training.warmup_steps, or set training.clip_norm. Checkpoints are from "
            f"before this step. {examples_said(self.job.store, of_loss or self.feed.examples(*place), bool(of_loss))}"
        )

    def cursor(self, step: int) -> Cursor:
        """Return the place of a run after so many steps."""
        return cursor_at(step, self.job)

    def progress(self) -> dict[str, Json]:
        """Return the counts of the run."""
        return {"counts": named(self._counts.tolist()), "seen": self._seen()}

    def _seen(self) -> Json:
        """Return what was read of each shard set in each phase, over all processes, which must all call it."""
        whole = [self.ranks.total(tallies.ravel().tolist()) for tallies in self._tallies]
        return [np.reshape(numbers, (-1, len(TALLIES))).tolist() for numbers in whole]

    def export(self, step: int) -> None:
        """Write the finished model as a folder, made visible in one step."""
        state = whole_state(self.learner.model)
        counts, parameters = named(self._counts.tolist()), self.learner.num_parameters
        facts = {"steps": step, "parameters": parameters, "seen": self._seen(), **counts}
        if self.ranks.rank == 0:
            new = unfinished(self.job.export, alone=True)
            for folder in (new, self.job.export):
                shutil.rmtree(folder, ignore_errors=True)
            new.mkdir()
            export(new, state, self.job.model, self.job.inputs)
            finish(new, {"identity": self.job.identity, **facts}, described(new, names_in(new)))
            new.rename(self.job.export)
        self.ranks.wait()
        self.log.say("done", step, parameters=parameters, **counts)


def cursor_at(step: int, job: TrainingJob) -> Cursor:
    """Return where a run is after a number of steps. A phase on the same shards starts reading where the last ended."""
    phases, done = job.training.phase, step
    for phase, (settings, reading) in enumerate(zip(phases, readings(job), strict=True)):
        if done < settings.steps or phase == len(phases) - 1:
            first = reading.begins[0] if len(reading.inputs) == 1 else 0  # a mixture's slots are the phase's own
            return Cursor(phase=phase, step=step, slot=first + settings.slots_before(done))
        done -= settings.steps
    raise AssertionError("a run has a phase")


class EvaluationSums(NamedTuple):
    """The sums of an evaluation over all processes.

    sums:    [terms, 2], counts: [STEP_COUNTS + terms], as of a step
    guessed: [vocabulary], how often each token was to be guessed
    words:   [2], of those apart from the commonest: how many are guessed, and how many there are
    measures: what else the objective adds up
    """

    sums: Float64s
    counts: Int64s
    guessed: Int64s
    words: Int64s
    measures: Float64s


def cross_entropy(targets: Int64s, weights: Int64s) -> float:
    """Nats a target costs on average under the distribution that the weights are proportional to."""
    present = targets > 0
    shares = targets[present] / targets.sum()
    return float(-(shares * np.log(weights[present] / weights.sum())).sum())
