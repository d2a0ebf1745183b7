"""Fine-tuning: a model's folder and two files of labelled examples in, the folder of a model for the task out.

    files ─► examples ─► the task, fitted ─► items ─► for each restart: for each epoch: steps, then scores
    model, tokenizer ────────────────────────┘                            └► the best epoch of all ─► a folder

AdamW as in pre-training, linear warm-up and decay (Devlin et al. 2018, appendix A.3).

Promise: on one process, on a processor, the same job ends with the same bytes, but for the times in `metrics.jsonl`,
also where it was killed in between and started again. The output folder appears in one step when all is done; it opens
in transformers (see `saving`), with the tokenizer next to it, and says how it was made in `finetune.json`: task and
settings, digests of the files, what became of every record, scores of every epoch of every restart.

Cost: a step of 32 texts of 5 to 49 tokens, a BERT of the size mini: 0.39 s (one x86-64 core). Memory: of a
row of 30 tokens some 650 bytes besides its text (`data`), and the weights some five times: as read, as learnt, with
gradients and AdamW's two moments.
"""

import gc
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from corpora.errors import InputError
from corpora.store.files import disk_refusal, unfinished
from corpora.store.settings import settings_json
from trainer.huggingface.pretrained import Pretrained, load_pretrained
from trainer.huggingface.tokenizers import TOKENIZER_CONFIG, with_max_length
from trainer.metrics import METRICS_FILE, MetricsLog, line, speak
from trainer.tasks.contract import Task, TunedTask
from trainer.tasks.course import Course, check_finite, counts_of
from trainer.tasks.data import encode, named_file, read_file
from trainer.tasks.encoding import TOKENIZER_FILES, TextEncoder
from trainer.tasks.progress import (
    EXPORT,
    CourseProgress,
    alone,
    asked_of,
    check_room,
    difference,
    has_progress,
    put_back,
    read_asked,
    read_best,
    read_progress,
    save_best,
    save_progress,
    size_of,
    write_asked,
)
from trainer.tasks.published import published_as, with_published
from trainer.tasks.registry import read_task
from trainer.tasks.rows.vectors import VectorTask
from trainer.tasks.saving import RECORD, check_weights, described_weights, task_json, write_task, written_json
from trainer.tasks.settings import FinetuneJob, FinetuneSettings
from trainer.tasks.teaching import TaskTeacher
from trainer.tasks.vector_files import write_vector_files
from trainer.training.machine import settle
from trainer.training.parallel import Ranks, joined

SAVE_SECONDS = 300.0  # after which a run is written down within an epoch


def main(arguments: list[str]) -> int:
    """Fine-tune as a job's file says; 0, or 2 where the user can mend what is wrong (a line of the output says it)."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("finetune takes the path of a job's JSON file.")
    job = FinetuneJob.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    with joined(job.settings.device) as ranks:
        try:
            finetune(job, ranks)
        except InputError as error:
            speak(line({"event": "failure", "message": str(error)}))
            return 2
    return 0


def finetune(job: FinetuneJob, ranks: Ranks) -> None:
    """Read, learn, export. Every process of `ranks` calls it. Raises InputError."""
    _check_output(Path(job.output))
    torch.use_deterministic_algorithms(True, warn_only=True)
    check_weights(Path(job.model))
    pretrained = load_pretrained(Path(job.model))
    over = {name: getattr(job.settings, name) for name in ("dropout", "pooling")}
    over = {name: value for name, value in over.items() if value is not None}
    pretrained = pretrained._replace(settings=replace(pretrained.settings, **over))
    settings = with_published(job.settings, pretrained.settings, published_as(job.task))
    run = Run(job, settings, pretrained, ranks)
    with _refusing(Path(job.output)), alone(Path(job.output)) if ranks.rank == 0 else nullcontext():
        run.begin()
        run.learn()
        if ranks.rank == 0:
            run.export()
    ranks.wait()


@contextmanager
def _refusing(output: Path) -> Iterator[None]:
    """Tell what the disk refuses of an output as a paragraph."""
    try:
        yield
    except OSError as error:
        ours = error.filename is None or Path(str(error.filename)).is_relative_to(output.parent)
        said = disk_refusal(error, "name an output on another disk") if ours else None
        if said is None:
            raise
        raise InputError(f"Cannot write {output}: {said}. With the same output the command then goes on.") from error


def _check_output(output: Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


def length_for(task: Task, asked: int | None, pretrained: Pretrained, model: str) -> int:
    """Tokens of a sequence. Raises InputError where the model reads less than is asked for."""
    positions = pretrained.settings.positions
    if asked is not None and asked > positions:
        raise InputError(f"max_length = {asked}, and the model {model} reads {positions} tokens: lower it.")
    return asked or min(task.usual_length, positions)


class Run:
    """All restarts of one job, on one of its processes."""

    def __init__(self, job: FinetuneJob, settings: FinetuneSettings, pretrained: Pretrained, ranks: Ranks) -> None:
        self.job, self.settings, self.pretrained, self.ranks = job, settings, pretrained, ranks
        task = read_task(job.task)
        self.max_length = length_for(task, settings.max_length, pretrained, job.model)
        encoder = TextEncoder.of(Path(job.model), pretrained.inputs, self.max_length)
        self.files = {"training": named_file(job.training), "evaluation": named_file(job.evaluation)}
        training = read_file(task, job.training)
        self.task = task.fitted(training.examples, training.path)
        evaluation = read_file(self.task, job.evaluation)
        self.training, self.evaluation = encode(self.task, training, encoder), encode(self.task, evaluation, encoder)
        if (teacher := TaskTeacher.of(self.task)) is not None:
            self.training, self.evaluation = teacher.teach((self.training, self.evaluation), ranks)
            self.task = teacher.named()
        self.training = replace(self.training, examples=())  # their items are all that is needed from here on
        batch, epochs = settings.batch or 1, settings.epochs or 1
        steps = -(-len(self.training.items) // batch) * epochs
        asked = settings.training(steps)
        self.plan, _, self.computes = settle(asked, pretrained.settings, ranks)
        self.folder = unfinished(Path(job.output), alone=True)
        self.other = ""  # why what a run has left is not gone on with

    def begin(self) -> None:
        """Go on with what a run of the same job has left, or begin anew. Raises InputError where one has just ended."""
        _check_output(Path(self.job.output))
        self.progress, self.state = self._begun()
        self.log = MetricsLog(self.folder, speaks=self.ranks.rank == 0)
        self.written = time.monotonic()

    @property
    def metric(self) -> str:
        """By which epochs are compared."""
        return self.task.metrics[0]

    def _begun(self) -> tuple[CourseProgress, dict[str, Any] | None]:
        """What a run of the same job that was ended has left; anything else is removed."""
        asked, before = asked_of(self.job, self.task, self.files), read_asked(self.folder)
        differs = difference(before, asked)
        found = None if differs else read_progress(self.folder)
        if has_progress(self.folder) and found is None:
            self.other = differs or "what it wrote down is damaged"
        self.ranks.wait()
        if found is None and self.ranks.rank == 0:
            write_asked(self.folder, asked)
        self.ranks.wait()
        return found if found is not None else (CourseProgress(), None)

    def learn(self) -> None:
        """All restarts. Raises InputError where the gradient is no longer a number."""
        steps = self.plan.steps
        self.log.cut(self.progress.restart * steps + self.progress.step if self.state else -1)
        self._say_start(steps)
        while self.progress.restart < self.settings.restarts:
            seed = self.settings.seed + self.progress.restart
            model = (self.pretrained.settings, self.pretrained.inputs, self.pretrained.state)
            course = Course(self.task, self.settings, self.plan, model, self.ranks, seed)
            if self.state is not None:
                put_back(course.learner, self.state)
                self.state = None
            self._follow(course)
            self.progress.ended.append({"seed": seed, "kept": self.progress.kept, "epochs": self.progress.epochs})
            self.progress.next()
            del course
            gc.collect()  # a sharded model is in circles: its weights would stay beside those of the next

    def _say_start(self, steps: int) -> None:
        if self.other:
            message = f"The run that was ended is not gone on with, for {self.other}: it begins anew."
            self.log.say("warning", 0, message=message)
        if said := getattr(self.task, "warning", ""):
            self.log.say("warning", self.progress.restart * steps + self.progress.step, message=said)
        self.log.say(
            "start",
            self.progress.restart * steps + self.progress.step,
            steps=steps * self.settings.restarts,
            processes=self.ranks.count,
            task=self.task.kind,
            metric=self.metric,
            computes=self.computes,
            resumed=self.state is not None,
            settings=settings_json(self.settings),
            max_length=self.max_length,
            items=len(self.training.items),
            training=self.training.ledger.to_json(),
            evaluation=self.evaluation.ledger.to_json(),
        )

    def _follow(self, course: Course) -> None:
        """One restart, from where it is to its end."""
        an_epoch = course.steps_of(self.training.items)
        while self.progress.step < course.training.steps and not self._patience_is_out():
            self._learn_step(course, an_epoch)
            if self.progress.step % an_epoch == 0:
                self._end_epoch(course, self.progress.step // an_epoch)
            elif self.ranks.any_says(time.monotonic() - self.written > SAVE_SECONDS):
                self._save(course)

    def _patience_is_out(self) -> bool:
        past = len(self.progress.epochs) - self.progress.kept
        return self.settings.patience is not None and self.progress.kept > 0 and past >= self.settings.patience

    def _learn_step(self, course: Course, an_epoch: int) -> None:
        step, outcome, rate = course.learn(self.progress.step, self.training.items)
        self.progress.step += 1
        done = self.progress.step
        if done == course.training.steps or done % self.settings.log_every == 0:
            told, norm, counts = course.said(step, outcome), float(outcome.norm), counts_of(step)
            self.log.say(
                "step",
                self.progress.restart * course.training.steps + done,
                epoch=(done - 1) // an_epoch + 1,
                restart=self.progress.restart,
                **told,
                learning_rate=rate,
                gradient_norm=norm,
                sequences=counts["sequences"],
                tokens=counts["tokens"],
            )
            check_finite(done, told["loss"], norm)

    def _end_epoch(self, course: Course, epoch: int) -> None:
        """Judge, keep the weights where they are the best so far, and write down where the run is."""
        began = time.monotonic()
        found, _ = course.judge(self.evaluation)
        self.progress.epochs.append({"epoch": epoch, **found})
        if self.settings.keep == "last" or self._is_best(found):
            self.progress.kept = epoch
        if self.progress.kept == epoch and (self.settings.keep == "last" or self._beats_all(found)):
            self.progress.best = self.progress.restart
            weights = course.weights()
            if self.ranks.rank == 0:
                save_best(self.folder, self.progress, weights)
        self.log.say(
            "evaluation",
            self.progress.restart * course.training.steps + self.progress.step,
            epoch=epoch,
            restart=self.progress.restart,
            **found,
            sequences=len(self.evaluation.examples),
            seconds=round(time.monotonic() - began, 3),
        )
        self._save(course)

    def _worth(self, epoch: dict[str, float]) -> tuple[float, float]:
        """By what epochs are compared: the metric, and of equals the loss; the higher the better."""
        return epoch[self.metric], -epoch["loss"]

    def _is_best(self, found: dict[str, float]) -> bool:
        """Whether an epoch is better than all before it in its restart."""
        kept = self.progress.kept
        return not kept or self._worth(found) > self._worth(self.progress.epochs[kept - 1])

    def _beats_all(self, found: dict[str, float]) -> bool:
        """Whether it is better than the kept ones of the restarts before."""
        kept = (each["epochs"][each["kept"] - 1] for each in self.progress.ended)
        return all(self._worth(found) > self._worth(each) for each in kept)

    def _save(self, course: Course) -> None:
        self.log.flush()
        save_progress(self.folder, self.progress, course.learner, self.ranks)
        self.written = time.monotonic()

    def export(self) -> None:
        """The kept epoch as a folder, made visible in one step; what is needed to make it again goes after that."""
        output, source, folder = Path(self.job.output), Path(self.job.model), self.folder / EXPORT
        kept = self.progress.ended[self.progress.best]
        if isinstance(self.task, TunedTask):
            self.task = self.task.tuned(kept["epochs"][kept["kept"] - 1])
        best = read_best(self.folder, self.progress)
        shutil.rmtree(folder, ignore_errors=True)
        check_room(self.folder, size_of(best))
        write_task(folder, best, self.task, self.pretrained.settings, self.pretrained.inputs)
        if isinstance(self.task, VectorTask) and self.task.shared:
            write_vector_files(folder, self.task, self.pretrained.settings.shape[1], self.max_length)
        self._copy_tokenizer(source, folder)
        shutil.copyfile(self.folder / METRICS_FILE, folder / METRICS_FILE)
        record = self._record()
        written_json(folder / RECORD, record)
        if output.is_dir():
            output.rmdir()  # seen to be empty
        folder.rename(output)
        shutil.rmtree(self.folder)
        kept = record["restarts"][record["best"]]
        done = {"epoch": kept["kept"], **kept["scores"], "output": str(output)}
        steps = self.plan.steps * self.settings.restarts
        more = {"median": record["median"], "spread": record["spread"]} if self.settings.restarts > 1 else {}
        speak(line({"event": "done", "step": steps, **done, **more, "metric": self.metric}))

    def _copy_tokenizer(self, source: Path, folder: Path) -> None:
        """With the length that the model reads."""
        for name in TOKENIZER_FILES:
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)
        config = source / TOKENIZER_CONFIG
        said = config.read_bytes() if config.is_file() else b"{}"
        (folder / TOKENIZER_CONFIG).write_bytes(with_max_length(said, self.pretrained.settings.positions))

    def _record(self) -> dict[str, Any]:
        """How the model was made, without a path of this machine."""
        restarts = [
            {**each, "scores": {k: v for k, v in each["epochs"][each["kept"] - 1].items() if k != "epoch"}}
            for each in self.progress.ended
        ]
        judged = [each["scores"][self.metric] for each in restarts]
        ledgers = {"training": self.training.ledger, "evaluation": self.evaluation.ledger}
        return {
            "task": task_json(self.task),
            "settings": settings_json(self.settings),
            "max_length": self.max_length,
            "weights": described_weights(self.folder / EXPORT),
            "files": {name: {**file, "ledger": ledgers[name].to_json()} for name, file in self.files.items()},
            "metric": self.metric,
            "restarts": restarts,
            "best": self.progress.best,
            "median": statistics.median(judged),
            "spread": [min(judged), max(judged)],
        }
