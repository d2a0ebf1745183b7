"""Fine-tuning: a model's folder and two tables of labelled texts in, a classifier's folder out.

    model, tokenizer, tables ─► ids ─► for each epoch: steps, then scores on the evaluation rows ─► the kept epoch

Every epoch goes through all training rows once, in an order of its own that is a function of the seed; its last step
is smaller where the batch does not divide the rows. The loss of a step is the mean over its texts, over all processes.
AdamW as in pre-training, linear warm-up and decay (Devlin et al. 2018, appendix A.3).

Promise: on one process, on a processor, the same job ends with the same bytes, but for the times in `metrics.jsonl`.
The output folder appears in one step when all is done; it opens in transformers (see `classification`), with the
tokenizer next to it, and says how it was made in `finetune.json`: settings, digests of the tables, what became of every
row, scores of every epoch.

Cost: a step of 32 texts of 5 to 49 tokens, a BERT of the size mini: 0.39 s (one x86-64 core). Memory: both tables
as ids, and the weights some seven times: as read, as learnt, with gradients and AdamW's two moments, and as kept.
"""

import dataclasses
import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Float64s, Int64s
from corpora.store.files import unfinished
from corpora.store.randomness import stream
from corpora.store.settings import settings_json
from shards.reading.loader import TALLIES
from shards.reading.order import examples_at, share
from trainer.families.contract import ModelInputs
from trainer.huggingface.checkpoints import load
from trainer.huggingface.tokenizers import TOKENIZER_CONFIG, with_max_length
from trainer.metrics import MetricsLog, line, speak
from trainer.model_settings import ModelSettings
from trainer.rates import learning_rate
from trainer.tasks.classification import build_classifier, export_classifier
from trainer.tasks.encoding import TOKENIZER, batch_of
from trainer.tasks.labelled import LabelledTexts, Task, read_task
from trainer.tasks.scores.classes import confusion, scores
from trainer.tasks.scores.numbers import correlations
from trainer.tasks.settings import CLASSES, METRICS, NUMBER, FinetuneJob
from trainer.training.checkpoint import whole_state
from trainer.training.feed import STEP_COUNTS, MicroBatch, Step, counted
from trainer.training.learner import Learner, StepOutcome
from trainer.training.lines import named
from trainer.training.parallel import Ranks, joined

RECORD = "finetune.json"
TOKENIZER_FILES = (
    TOKENIZER,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
TEXTS_AT_ONCE = 64  # that a process judges together


def main(arguments: list[str]) -> int:
    """Fine-tune as a job's file says; 0, or 2 where the user can mend what is wrong (a line of the output says it)."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("finetune takes the path of a job's JSON file.")
    job = FinetuneJob.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    with joined() as ranks:
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
    model, inputs, pretrained = load(Path(job.model))
    if job.settings.dropout is not None:
        model = dataclasses.replace(model, dropout=job.settings.dropout)
    task = read_task(job, model, inputs)
    run = Finetuning(job, ranks, task, model, inputs, pretrained)
    kept = run.learn()
    if ranks.rank == 0:
        run.export(kept)
    ranks.wait()


def _check_output(output: Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The epoch that is exported, from 1, its scores, and (on the first process) its weights."""

    epoch: int
    scores: dict[str, float]
    state: dict[str, Tensor]


class Finetuning:
    """One run, on one of its processes."""

    def __init__(
        self,
        job: FinetuneJob,
        ranks: Ranks,
        task: Task,
        model: ModelSettings,
        inputs: ModelInputs,
        pretrained: dict[str, Tensor],
    ) -> None:
        self.job, self.ranks, self.task, self.model_settings, self.inputs = job, ranks, task, model, inputs
        steps_an_epoch = -(-len(task.training) // job.settings.batch)
        self.settings = job.settings.training(steps_an_epoch * job.settings.epochs)
        torch.manual_seed(job.settings.seed)
        self.model = build_classifier(model, inputs, max(len(task.names), 1), pretrained)
        self.learner = Learner.of(self.model, self.settings, ranks)
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self.unfinished = unfinished(Path(job.output), alone=True)
        if ranks.rank == 0:
            shutil.rmtree(self.unfinished, ignore_errors=True)
            self.unfinished.mkdir(parents=True)
        self.log = MetricsLog(self.unfinished, speaks=ranks.rank == 0)

    def learn(self) -> Kept:
        """All epochs; the one to keep. Raises InputError where the gradient is no longer a number."""
        torch.manual_seed(int(stream(self.settings.seed, "dropout", 0, self.ranks.rank)))
        self.log.say(
            "start",
            0,
            steps=self.settings.steps,
            parameters=self.learner.num_parameters,
            processes=self.ranks.count,
            labels=self.task.names,
            training=self.task.training.ledger.to_json(),
            evaluation=self.task.evaluation.ledger.to_json(),
        )
        kept = None
        for epoch in range(self.job.settings.epochs):
            self._learn_epoch(epoch)
            found = self.judge(epoch)
            metric = self.job.settings.metric or METRICS[CLASSES if self.task.names else NUMBER][0]
            if kept is None or self.job.settings.keep == "last" or found[metric] > kept.scores[metric]:
                kept = Kept(epoch=epoch + 1, scores=found, state=self._copied_state())
        assert kept is not None, "a run has an epoch"
        return kept

    def _copied_state(self) -> dict[str, Tensor]:
        """All weights as they are now; of a single process the whole state is the one that goes on learning."""
        return {name: tensor.clone() for name, tensor in whole_state(self.model).items()}

    def _learn_epoch(self, epoch: int) -> None:
        num, batch = len(self.task.training), self.settings.phase[0].batch
        for first in range(epoch * num, (epoch + 1) * num, batch):
            self._learn_step(epoch, range(first, min(first + batch, (epoch + 1) * num)))

    def _learn_step(self, epoch: int, slots: range) -> None:
        mine = share(slots, self.ranks.rank, self.ranks.count)
        places = np.arange(mine.start, mine.stop, dtype=np.int64)
        examples = examples_at(places, len(self.task.training), self.settings.seed)
        rate = learning_rate(self.step, self.settings)
        self.step += 1
        step = counted(self.step, [self._micro_batch(self.task.training, examples)], self.ranks)
        outcome = self.learner.learn(step, rate)
        if self.step == self.settings.steps or self.step % self.settings.log_every == 0:
            self._say_step(epoch, rate, step, outcome)

    def _say_step(self, epoch: int, rate: float, step: Step, outcome: StepOutcome) -> None:
        [[loss, right]] = self.ranks.sum(outcome.sums).tolist()
        counts, norm = named(step.counts.tolist()), float(outcome.norm)
        texts = counts["sequences"]
        means = {"loss": loss / texts} | ({"accuracy": right / texts} if self.task.names else {})
        rates = {"learning_rate": rate, "gradient_norm": norm}
        self.log.say("step", self.step, epoch=epoch + 1, **means, **rates, sequences=texts, tokens=counts["tokens"])
        if not np.isfinite([loss, norm]).all():
            raise InputError(
                f"At step {self.step} the loss is {loss / texts:.4g} and the gradient's norm {norm:.4g}: it has "
                "diverged. Lower learning_rate, raise warmup, or set clip_norm."
            )

    @torch.no_grad()
    def judge(self, epoch: int) -> dict[str, float]:
        """Loss and scores on the evaluation rows, the same on every process."""
        began = time.monotonic()
        rows = self.task.evaluation
        shortest_first = np.argsort(np.diff(rows.texts.offsets), kind="stable")
        answers = torch.zeros(len(rows), dtype=torch.float64, device=self.ranks.device)  # each of one process alone
        loss = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
        self.model.eval()
        for first in range(0, len(rows), TEXTS_AT_ONCE * self.ranks.count):
            together = range(first, min(first + TEXTS_AT_ONCE * self.ranks.count, len(rows)))
            examples = shortest_first[share(together, self.ranks.rank, self.ranks.count)]
            micro_batch = self._micro_batch(rows, examples)
            batch = micro_batch.batch.to(self.ranks.device)
            logits_BC = self.model(batch, answering=True)
            loss += self.model.losses(logits_BC, batch)[0, 0]
            answers[torch.from_numpy(_shortest_first(rows, examples))] = _answers(logits_BC).double()
        self.model.train()
        whole = self.ranks.sum(answers).cpu().numpy()
        found = {"loss": float(self.ranks.sum(loss)) / len(rows), **self._scores(rows.labels, whole)}
        self.history.append({"epoch": epoch + 1, **found})
        seconds = round(time.monotonic() - began, 3)
        self.log.say("evaluation", self.step, epoch=epoch + 1, **found, sequences=len(rows), seconds=seconds)
        return found

    def _scores(self, labels: Int64s | Float32s, answers: Float64s) -> dict[str, float]:
        """Of the evaluation rows, all of them."""
        if not self.task.names:
            return correlations(labels.astype(np.float64), answers)
        table = confusion(labels.astype(np.int64), answers.astype(np.int64), len(self.task.names))
        return dataclasses.asdict(scores(table))

    def _micro_batch(self, rows: LabelledTexts, examples: Int64s) -> MicroBatch:
        """Texts and labels, shortest first: runs of one length are what attention does best."""
        ordered = _shortest_first(rows, examples)
        texts = [rows.texts[example] for example in ordered.tolist()]
        [term] = self.learner.terms
        batch = batch_of(texts, targets={term.name: torch.from_numpy(rows.labels[ordered])})
        counts = {"sequences": len(texts), "tokens": len(batch.ids)}
        return MicroBatch(
            batch=batch.pinned() if self.ranks.device.type == "cuda" else batch,
            guessed=np.empty(0, np.int64),
            counts=np.array([*(counts.get(name, 0) for name in STEP_COUNTS), len(texts)], np.int64),
            tallies=np.empty((0, len(TALLIES)), np.int64),
        )

    def export(self, kept: Kept) -> None:
        """The kept epoch as a folder, made visible in one step."""
        output, source = Path(self.job.output), Path(self.job.model)
        export_classifier(self.unfinished, kept.state, self.model_settings, self.inputs, self.task.names)
        for name in TOKENIZER_FILES:
            if (source / name).is_file():
                shutil.copyfile(source / name, self.unfinished / name)
        config = source / TOKENIZER_CONFIG
        said = config.read_bytes() if config.is_file() else b"{}"
        (self.unfinished / TOKENIZER_CONFIG).write_bytes(with_max_length(said, self.model_settings.positions))
        record = json.dumps(self._record(kept), indent=1, ensure_ascii=False)
        (self.unfinished / RECORD).write_text(record + "\n", encoding="utf-8")
        if output.is_dir():
            output.rmdir()  # seen to be empty
        self.unfinished.rename(output)
        speak(line({"event": "done", "step": self.step, "epoch": kept.epoch, **kept.scores, "output": str(output)}))

    def _record(self, kept: Kept) -> dict[str, Any]:
        """How the classifier was made, without a path of this machine."""
        tables = {"training": self.job.training, "evaluation": self.job.evaluation}
        ledgers = {"training": self.task.training.ledger, "evaluation": self.task.evaluation.ledger}
        return {
            "settings": settings_json(self.job.settings),
            "labels": self.task.names,
            "tables": {
                name: {
                    **settings_json(table),
                    "path": Path(table.path).name,
                    "sha256": _sha256(Path(table.path)),
                    "ledger": ledgers[name].to_json(),
                }
                for name, table in tables.items()
            },
            "epochs": self.history,
            "kept": kept.epoch,
        }


def _shortest_first(rows: LabelledTexts, examples: Int64s) -> Int64s:
    return np.array(sorted(examples.tolist(), key=lambda example: len(rows.texts[example])), np.int64)


def _answers(logits_BC: Tensor) -> Tensor:
    """The class of each text, or its number where there is one output alone."""
    return logits_BC.argmax(-1) if logits_BC.shape[1] > 1 else logits_BC[:, 0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
