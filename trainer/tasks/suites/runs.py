"""The runs of a suite: one for each task and seed, in a folder that its settings name.

    OUTPUT/runs/TASK-SEED-DIGEST/   model/             what was fine-tuned, as `cloze finetune` writes it
                                    SPLIT.json         the scores of its answers (`judged`)
                                    SPLIT.jsonl        its answers, a line a record

The digest is of the model, the task, its settings and the bytes of its files: the same question finds what was done,
another one has a folder of its own. Cost: the model and the files are read once.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.errors import InputError
from corpora.sources.bytes.objects import raw_path
from corpora.store.settings import to_settings_json
from trainer.tasks.data import named_file, sha256_of
from trainer.tasks.registry import task_class, task_package
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.suites.judged import VERSION, JudgedSplit, read_judged
from trainer.tasks.suites.suite import Suite, SuiteSplit, SuiteTask

RUNS, MODEL = "runs", "model"
DECIDING = ("*.safetensors", "config.json", "tokenizer.json")  # files of a model's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """One task learnt from one seed. folder: of the run; job: whose output is in it"""

    task: str
    seed: int
    folder: str
    job: FinetuneJob
    splits: tuple[SuiteSplit, ...]

    def answers(self, split: SuiteSplit) -> Path:
        """Return the path of the answers to a split."""
        return Path(self.folder) / f"{bare(split.name)}.jsonl"

    def judged(self, split: SuiteSplit) -> Path:
        """The file of how good that is."""
        return Path(self.folder) / f"{bare(split.name)}.json"

    @property
    def waiting(self) -> list[SuiteSplit]:
        """The splits that are still to be answered. Raises InputError where what there is is incomplete."""
        return [split for split in self.splits if not is_judged(self, split)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteJob:
    """Runs for one process of the trainer."""

    runs: tuple[SuiteRun, ...]


def runs_of(suite: Suite, model: Path, output: Path, first_weights: bool = False) -> Iterator[SuiteRun]:
    """Task by task, seed by seed. first_weights: the model as it was before any training, as a control"""
    weights = model_digest(model) + (" from first weights" if first_weights else "")
    for task in suite.tasks:
        asked = _asked(task, weights)
        for seed in suite.seeds:
            digest = hashlib.sha256(f"{asked}{seed}".encode()).hexdigest()[:12]
            folder = output / RUNS / f"{bare(task.name)}-{seed}-{digest}"
            job = FinetuneJob(
                model=str(model.resolve()),
                output=str((folder / MODEL).resolve()),
                task=task.task,
                training=task.training,
                evaluation=task.evaluation,
                settings=replace(task.settings, seed=seed),
                first_weights=first_weights,
            )
            yield SuiteRun(task=task.name, seed=seed, folder=str(folder.resolve()), job=job, splits=task.splits)


def is_judged(run: SuiteRun, split: SuiteSplit) -> bool:
    """Tells whether a split was answered, as it is now, by this version. Raises InputError where that is incomplete."""
    judged = read_judged(run.judged(split))
    is_now = judged is not None and (judged.version, judged.sha256) == (VERSION, digest_of(split))
    return is_now and run.answers(split).is_file()


def check_judged(run: SuiteRun, split: SuiteSplit, judged: JudgedSplit) -> None:
    """Raise InputError where the answers to a split lack the metric by which it is judged."""
    if split.labelled and split.metrics[0] not in judged.scores:
        raise InputError(
            f"The task {run.task} has no {split.metrics[0]} of {split.name}: name `metrics` of "
            f"{', '.join(judged.scores)} in its table."
        )


def digest_of(split: SuiteSplit) -> str:
    """Return the digest of the bytes of its file; for a folder, its name alone."""
    path = raw_path(split.file.path)
    return sha256_of(str(path)) if path.is_file() else path.name


def model_digest(model: Path) -> str:
    """Return the digest of a model's files that decide its answers. Raises InputError where it has no weights."""
    files = [path for pattern in DECIDING for path in sorted(model.glob(pattern))]
    if not any(path.suffix == ".safetensors" for path in files):
        raise InputError(
            f"{model} holds no weights (*.safetensors), so it is not a model: give a model's folder, an artifact of a "
            "store, a release, or a store."
        )
    named = [(path.name, sha256_of(str(path))) for path in files]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _asked(task: SuiteTask, model: str) -> str:
    """All that decides what is learnt, but for the seed."""
    kind = str(task.task["kind"])
    settings = {name: value for name, value in to_settings_json(task.settings).items() if name != "seed"}
    files = [named_file(task.training), named_file(task.evaluation)]
    version = [task_class(kind).version, task_package(kind)]
    return json.dumps([model, dict(task.task), version, settings, files], sort_keys=True)


def bare(name: str) -> str:
    """A name as part of a file's.

    >>> bare("glue/mnli-mm dev")
    'glue-mnli-mm-dev'
    """
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
