"""What is pre-training worth? Each task learnt by a small model that was pre-trained, and by the same one that was not.

    python -m benchmarks.tasks                              the samples in ../shared/data, or in $CLOZE_SHARED/data
    python -m benchmarks.tasks --tasks sst2,stsb --seeds 3  some of them, the median of three seeds
    python -m benchmarks.tasks --model FOLDER               a checkpoint of your own in place of the small one

The small model is a ModernBERT of 3 layers of 128 and 8,000 pieces, which reads novels, encyclopedia, news and web
text of the same folder for a third of an hour on one thread (`RECIPE`). Its twin has the weights that it began with.
Both are fine-tuned with the same settings, by the program that users call; what a task is judged by, and on which rows,
is in `ENTRIES`. *Commonest* is what one gets who always gives the commonest answer of the training rows.

A set of which only one split is at hand is cut: its last fifth judges. What is done is not done again: a call that was
ended goes on. CPU seconds are those of the processes that fine-tune. Written are `tasks.md` and `tasks.json`.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.record import processor
from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.places import Place
from corpora.store.stage import build_stage
from flows.command.models import model_folder
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import parse_recipe
from flows.run.pipeline import run_recipe
from trainer.huggingface.checkpoints import export, load
from trainer.model.objective import build_model
from trainer.tasks.data import read_file
from trainer.tasks.encoding import TOKENIZER_FILES
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.registry import read_task
from trainer.tasks.saving import RECORD
from trainer.tasks.settings import FinetuneJob, FinetuneSettings

RECIPE = """
name = "small"
seed = 42

[[source]]
kind = "bookcorpus"
path = {books}
priority = 1

[[source]]
kind = "openwebtext"
path = {web}
priority = 2

[[source]]
kind = "wikipedia"
path = {wiki}
priority = 3

[[source]]
kind = "cc-news"
path = {news}
priority = 4

[language]
keep = ["en"]

[held_out]
share = 0.02

[[vocabulary]]
name = "wordpiece"
algorithm = "wordpiece"
size = 8000

[[shards]]
name = "text"
vocabulary = "wordpiece"
input = "full-sentences"
length = 128
masking = {{ kind = "dynamic", unit = "token", rate = 0.2 }}

[model]
family = "modernbert"
size = "tiny"
layers = 3
hidden_size = 128
heads = 4
feed_forward_size = 256
max_length = 512
initializer_range = 0.06

[training]
learning_rate = 2e-3
warmup_steps = 150
beta2 = 0.98
schedule = {{ kind = "wsd", decay_share = 0.3 }}
log_every = 50
evaluate_every = 500
evaluate_examples = 1_000
checkpoint_every = 500
processes = 1
device = "cpu"

[[training.phase]]
shards = "text"
steps = 3500
batch = 24
"""
SOURCES = {
    "books": "books/txt",
    "web": "openwebtext/openwebtext",
    "wiki": "wikipedia/enwiki-pages-articles-part1.xml.bz2",
    "news": "cc-news/warc",
}
JUDGES = 5  # one row of so many, where a set has one split alone
LEARNING: Mapping[str, Any] = {"epochs": 4, "batch": 32, "learning_rate": 5e-4, "warmup": 0.1, "log_every": 1_000}

Cut = Callable[[Path, Path], tuple[Path, Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task.

    train, dev: below the folder of tasks; without `dev`, `train` is cut
    file:       how both are read
    settings:   of the fine-tuning, over LEARNING
    commonest:  what the commonest answer comes to where labels do not tell
    """

    name: str
    task: Mapping[str, Any]
    train: str
    dev: str = ""
    file: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    commonest: float | None = None

    def files(self, data: Path, work: Path) -> tuple[FileSettings, FileSettings]:
        """What is learnt from, and what judges. work: where cut files are written"""
        train = data / self.train
        if self.dev:
            paths = train, data / self.dev
        else:
            paths = CUTS[str(self.file.get("format", train.suffix[1:]))](train, work / self.name)
        one, other = (FileSettings(path=str(path), **self.file) for path in paths)
        return one, other


def _cut_blocks(path: Path, folder: Path, between: str, heading: int = 0) -> tuple[Path, Path]:
    """A file of blocks in two: the last ones judge. heading: lines that both begin with"""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n", heading)
    head, body = "".join(f"{line}\n" for line in lines[:heading]), lines[-1]
    blocks = [block for block in body.strip("\n").split(between) if block.strip()]
    kept = len(blocks) - len(blocks) // JUDGES
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, some in (("train", blocks[:kept]), ("dev", blocks[kept:])):
        written.append(folder / f"{name}{path.suffix}")
        written[-1].write_text(head + between.join(some) + between, encoding="utf-8")
    return written[0], written[1]


def _cut_squad(path: Path, folder: Path) -> tuple[Path, Path]:
    """SQuAD's articles in two."""
    content = json.loads(path.read_text(encoding="utf-8"))
    kept = len(content["data"]) - len(content["data"]) // JUDGES
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, some in (("train", content["data"][:kept]), ("dev", content["data"][kept:])):
        written.append(folder / f"{name}.json")
        written[-1].write_text(json.dumps({**content, "data": some}), encoding="utf-8")
    return written[0], written[1]


CUTS: Mapping[str, Cut] = {
    "tsv": lambda path, folder: _cut_blocks(path, folder, "\n", heading=1),
    "jsonl": lambda path, folder: _cut_blocks(path, folder, "\n"),
    "conllu": lambda path, folder: _cut_blocks(path, folder, "\n\n"),
    "ncbi": lambda path, folder: _cut_blocks(path, folder, "\n\n"),
    "squad": _cut_squad,
}
SST2 = {"columns": {"label": "1", "text": "2"}, "header": False}
COLA = {"columns": {"label": "2", "text": "4"}, "header": False}
STSB = {"columns": {"text": "1", "second": "2", "label": "3"}, "header": False}
QNLI = {"columns": {"text": "question", "second": "sentence"}}
WNLI = {"columns": {"text": "sentence1", "second": "sentence2"}}
ENTRIES = (
    TaskEntry(name="sst2", task={"kind": "classes"}, train="tasks/sst2/train.tsv", dev="tasks/sst2/dev.tsv", file=SST2),
    TaskEntry(
        name="cola",
        task={"kind": "classes", "metric": "matthews"},
        train="tasks/cola/in_domain_train.tsv",
        dev="tasks/cola/in_domain_dev.tsv",
        file=COLA,
    ),
    TaskEntry(
        name="stsb",
        task={"kind": "number"},
        train="tasks/stsb/stsb-en-train.csv",
        dev="tasks/stsb/stsb-en-dev.csv",
        file=STSB,
        settings={"epochs": 8},
        commonest=0.0,
    ),
    TaskEntry(name="qnli", task={"kind": "classes"}, train="tasks/qnli/dev.tsv", file=QNLI),
    TaskEntry(name="wnli", task={"kind": "classes"}, train="tasks/wnli/train.tsv", dev="tasks/wnli/dev.tsv", file=WNLI),
    TaskEntry(
        name="boolq",
        task={"kind": "classes"},
        train="tasks/fewglue/BoolQ/train.jsonl",
        file={"columns": {"text": "question", "second": "passage"}, "max_unusable": 0.2},
        settings={"batch": 8},
    ),
    TaskEntry(
        name="wnut17",
        task={"kind": "tags"},
        train="tasks/wnut17/wnut17train.conll",
        dev="tasks/wnut17/emerging.dev.conll",
        file={"format": "conll", "max_unusable": 0.05},
        commonest=0.0,
    ),
    TaskEntry(
        name="ncbi",
        task={"kind": "tags"},
        train="domains/biomedical/NCBItrainset_corpus.txt",
        file={"format": "ncbi"},
        commonest=0.0,
    ),
    TaskEntry(
        name="ewt-pos",
        task={"kind": "tags"},
        train="gold/ud-english-ewt/en_ewt-ud-dev.conllu",
        file={"format": "conllu"},
    ),
    TaskEntry(
        name="xquad",
        task={"kind": "span"},
        train="tasks/squad/xquad.en.part1.json",
        file={"format": "squad"},
        settings={"epochs": 6},
        commonest=0.0,
    ),
    TaskEntry(
        name="copa",
        task={"kind": "choice"},
        train="tasks/copa/copa-dev.xml",
        dev="tasks/copa/copa-test.xml",
        file={"format": "copa"},
        settings={"epochs": 8},
        commonest=0.5,
    ),
    TaskEntry(
        name="stsb-similarity",
        task={"kind": "similarity"},
        train="tasks/stsb/stsb-en-train.csv",
        dev="tasks/stsb/stsb-en-dev.csv",
        file=STSB,
        settings={"epochs": 8, "learning_rate": 1e-3},
        commonest=0.0,
    ),
)


# The models.


def pretrained(data: Path, out: Path) -> Path:
    """The small model of the text in a folder, trained where it is not yet."""
    said = {name: json.dumps(str((data / path).resolve())) for name, path in SOURCES.items()}
    recipe = parse_recipe(RECIPE.format(**said), out / "recipe.toml", {})
    place = Place(str(out / "store"))
    lock = resolve(recipe, Lock(), StatCache()).lock
    run_recipe(place, recipe, lock, lambda stages: [build_stage(place, stage) for stage in stages])
    with model_folder(str(out / "store")) as folder:
        return folder


def unlearnt(model: Path, folder: Path) -> Path:
    """The same model with first weights."""
    settings, inputs, _ = load(model)
    torch.manual_seed(0)
    twin = build_model(settings, inputs)
    twin.init_weights()
    export(folder, twin.state_dict(), settings, inputs)
    for name in TOKENIZER_FILES:
        if (model / name).is_file():
            (folder / name).write_bytes((model / name).read_bytes())
    return folder


# Learning.


def learnt(entry: TaskEntry, files: tuple[FileSettings, FileSettings], model: Path, seed: int, output: Path) -> Any:
    """The record of a fine-tuning, with the CPU seconds that it took; done where it is not done yet."""
    spent = output.with_suffix(".seconds")
    if not (output / RECORD).is_file():
        job = FinetuneJob(
            model=str(model),
            output=str(output),
            task=entry.task,
            training=files[0],
            evaluation=files[1],
            settings=FinetuneSettings(**{**LEARNING, **entry.settings, "seed": seed}),
        )
        path = output.with_suffix(".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(job.to_json(), encoding="utf-8")
        before = _seconds_of_children()
        done = subprocess.run(
            [sys.executable, "-m", "trainer", "finetune", str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        if done.returncode:
            raise InputError(f"{entry.name}: {done.stdout.strip().splitlines()[-1:]}")
        spent.write_text(f"{_seconds_of_children() - before:.1f}", encoding="ascii")
    seconds = float(spent.read_text(encoding="ascii")) if spent.is_file() else 0.0
    return json.loads((output / RECORD).read_text(encoding="utf-8")) | {"cpu_seconds": seconds}


def _seconds_of_children() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def commonest(entry: TaskEntry, files: tuple[FileSettings, FileSettings]) -> float:
    """What the commonest answer comes to, by the task's own metric."""
    if entry.commonest is not None:
        return entry.commonest
    task = read_task(entry.task)
    training = read_file(task, files[0]).examples
    task = task.fitted(training, files[0].path)
    found = read_file(task, files[1]).examples
    if entry.task["kind"] == "tags":
        [(usual, _)] = Counter(tag for example in training for tag in example.tags).most_common(1)
        tags = [tag for example in found for tag in example.tags]
        return float(sum(tag == usual for tag in tags) / len(tags))
    [(most, _)] = Counter(example.label for example in training).most_common(1)
    share: float = sum(example.label == most for example in found) / len(found)
    return 0.0 if task.metrics[0] == "matthews" else share


def measure(
    entry: TaskEntry, data: Path, out: Path, models: Mapping[str, Path], seeds: Sequence[int]
) -> dict[str, Any]:
    """A row of the table."""
    files = entry.files(data, out / "cut")
    row: dict[str, Any] = {"name": entry.name, "commonest": commonest(entry, files)}
    for name, model in models.items():
        records = [learnt(entry, files, model, seed, out / "learnt" / f"{entry.name}-{name}-{seed}") for seed in seeds]
        scores = [record["median"] for record in records]
        row[name] = {
            "median": statistics.median(scores),
            "scores": scores,
            "seconds": [record["cpu_seconds"] for record in records],
        }
        row["metric"] = records[0]["metric"]
        row["rows"] = {key: _given(records[0]["files"][key]) for key in ("training", "evaluation")}
    return row


def _given(file: Mapping[str, Any]) -> int:
    [account] = file["ledger"]["accounts"].values()
    given: int = account["outcomes"]["given"]
    return given


# Showing.


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The measures as a table of Markdown."""
    yield "| task | rows learnt, judged | metric | commonest | not pre-trained | pre-trained | CPU s each |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        both = [row[name] for name in ("unlearnt", "pretrained")]
        seconds = statistics.median(each for side in both for each in side["seconds"])
        cells = (
            row["name"],
            f"{row['rows']['training']:,}, {row['rows']['evaluation']:,}",
            row["metric"],
            f"{row['commonest']:.3f}",
            *(_median(side) for side in both),
            f"{seconds:.0f}",
        )
        yield f"| {' | '.join(cells)} |"


def _median(side: Mapping[str, Any]) -> str:
    scores = side["scores"]
    spread = f" ({min(scores):.3f} to {max(scores):.3f})" if len(scores) > 1 else ""
    return f"{side['median']:.3f}{spread}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn and judge them all; 0."""
    shared = Path(os.environ.get("CLOZE_SHARED", "../shared"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description="What pre-training is worth.")
    parser.add_argument("--data", type=Path, default=shared / "data", help="the samples (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("tasks"), help="where to work and write (default: %(default)s)"
    )
    parser.add_argument("--model", type=Path, help="a pre-trained folder in place of the small model")
    parser.add_argument("--tasks", default="", help="some of them, with commas between")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each (default: %(default)s)")
    asked = parser.parse_args(arguments)
    if not asked.data.is_dir():
        print(f"{asked.data} is not there: nothing to measure.")
        return 0
    wanted = asked.tasks.split(",") if asked.tasks else [entry.name for entry in ENTRIES]
    asked.out.mkdir(parents=True, exist_ok=True)
    model = asked.model or pretrained(asked.data, asked.out)
    models = {"unlearnt": unlearnt(model, asked.out / "unlearnt"), "pretrained": model}
    rows = []
    for entry in ENTRIES:
        if entry.name in wanted:
            rows.append(measure(entry, asked.data, asked.out, models, range(42, 42 + asked.seeds)))
            lines = list(table(rows))
            print(lines[-1], flush=True)
            (asked.out / "tasks.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
            said = {"processor": processor(), "rows": rows}
            (asked.out / "tasks.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"benchmarks.tasks: {error}")
