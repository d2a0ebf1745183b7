"""Fine-tuning next to transformers' Trainer, sentence-transformers and SetFit: scores, CPU, memory and lines to type.

    python -m benchmarks.beside --model FOLDER --steps 200 --seeds 3      CoLA, SST-2, STS-B and WNUT-17
    python -m benchmarks.beside --model FOLDER --task cola                one of them
    python -m benchmarks.beside --model FOLDER --table 200000             one large table: finetune, predict, embed

All sides begin with the same weights and learn the same rows, spread over each published training file, once, in
batches of 16: AdamW, a linear warm-up over a tenth of the steps and decay to zero, weight decay .01, gradients clipped
at 1, 64 tokens, float32 on one thread. Each draws its head, dropout and order of rows by itself. The last weights are
judged by the same scores on 400 rows of the development file. SetFit learns pairs that it makes of the rows, in
as many steps, then a logistic regression. Each side of a task has a process of its own: CPU is user and system of all
but imports, judging included; memory is the most that the process held. Lines are those of the function here that calls
the library (ours: one command). Needs the extras `trainer`, `reference`, `accelerate` and `sentences`, and SetFit, also
from a folder of its own: `pip install --no-deps --target FOLDER setfit==1.2.0 evaluate==0.4.6`, PYTHONPATH=FOLDER.
"""

import argparse
import contextlib
import importlib
import inspect
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer.tasks.formats.published import published
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.scores.tags import span_scores
from trainer.tasks.scores.texts import class_scores, correlations

DATA = Path(os.environ.get("CLOZE_SHARED", "../shared")) / "data" / "tasks"
BATCH, JUDGED, LENGTH = 16, 400, 64
SETS = {"cola": "glue/cola", "sst2": "glue/sst2", "stsb": "stsb-multi/en", "wnut17": "wnut17"}
RATES = {"cola": 3e-4, "sst2": 3e-4, "stsb": 3e-4, "wnut17": 1e-3}
Rows = list[dict[str, Any]]
Score = Callable[[Any], float]
Side = Callable[..., Any]


# The rows.


def rows_of(task: str, part: str, number: int | None = None) -> Rows:
    """Return rows of a published file, evenly spread over it; None: all. part: train or dev"""
    found = published(SETS[task], str(DATA / task))
    roles = {"wnut17": ("words", "tags"), "stsb": ("text", "second", "label")}.get(task, ("text", "label"))
    rows: Rows = [row for _, row in read_examples(found.files[part], RowCounts(), roles, dict)]
    if task != "wnut17":
        rows = [{**row, "label": float(row["label"]) if task == "stsb" else int(row["label"])} for row in rows]
    number = min(number or len(rows), len(rows))
    return [rows[place * len(rows) // number] for place in range(number)]


def score_of(task: str, judged: Rows) -> Score:
    """Return what scores the answers to some rows: Matthews, accuracy, Spearman or F1."""
    gold = [row["tags" if task == "wnut17" else "label"] for row in judged]
    return {
        "cola": lambda answers: class_scores(gold, answers, 2)["matthews"],
        "sst2": lambda answers: class_scores(gold, answers, 2)["accuracy"],
        "stsb": lambda answers: correlations(gold, answers)["spearman"],
        "wnut17": lambda answers: span_scores(gold, answers)["f1"],
    }[task]


# The sides: each learns rows and returns its answers to others.


def cloze(model: Path, task: str, rows: Sequence[Rows], seed: int, folder: Path, kind: str = "") -> float:
    """Learn by the code of `cloze finetune`; return the score that it reports."""
    from trainer.tasks.finetuning.finetune import finetune
    from trainer.tasks.saving import RECORD
    from trainer.tasks.settings import FinetuneJob, FinetuneSettings
    from trainer.training.parallel import joined

    kind = kind or {"stsb": "number", "wnut17": "tags"}.get(task, "classes")
    files = []
    for name, some in zip(("train", "dev"), rows, strict=True):
        files.append(FileSettings(path=str(folder / f"{name}.jsonl")))
        texts = [{**row, "text": row["words"]} if "words" in row else row for row in some]
        Path(files[-1].path).write_text("".join(f"{json.dumps(row)}\n" for row in texts), encoding="utf-8")
    settings = FinetuneSettings(
        epochs=1, batch=BATCH, learning_rate=RATES[task], warmup=0.1, weight_decay=0.01, layer_decay=1.0,
        epsilon=1e-8, seed=seed, keep="last", max_length=LENGTH, log_every=10_000, device="cpu",
    )  # fmt: skip
    job = FinetuneJob(
        model=str(model), output=str(folder / "out"), task={"kind": kind}, training=files[0], evaluation=files[1],
        settings=settings,
    )  # fmt: skip
    with joined("cpu") as ranks:
        finetune(job, ranks)
    record = json.loads((folder / "out" / RECORD).read_text(encoding="utf-8"))
    metric = {"cola": "matthews", "sst2": "accuracy", "stsb": "spearman", "wnut17": "f1"}[task]
    return float(record["restarts"][0]["epochs"][-1][metric])


def similarity(model: Path, task: str, rows: Sequence[Rows], seed: int, folder: Path) -> float:
    """Learn vectors whose cosine is the number."""
    return cloze(model, task, rows, seed, folder, "similarity")


def arguments_of(kind: Any, task: str, seed: int, folder: Path) -> Any:
    """Return the settings of transformers' Trainer, or of a kind that takes the same."""
    return kind(
        str(folder), num_train_epochs=1, per_device_train_batch_size=BATCH, per_device_eval_batch_size=64,
        learning_rate=RATES[task], warmup_steps=0.1, weight_decay=0.01, seed=seed, report_to=[], save_strategy="no",
        disable_tqdm=True, use_cpu=True, logging_strategy="no",
    )  # fmt: skip


def transformers_texts(model: Path, task: str, rows: Sequence[Rows], seed: int, folder: Path) -> Any:
    """Learn classes or a number by Trainer."""
    import transformers

    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    number = task == "stsb"
    net = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=1 if number else 2)
    texts = [[(row["text"], row["second"]) if number else (row["text"],) for row in some] for some in rows]
    encoded = [[tokenizer(*text, truncation=True, max_length=LENGTH) for text in some] for some in texts]
    train = [{**each, "labels": row["label"]} for each, row in zip(encoded[0], rows[0], strict=True)]
    arguments = arguments_of(transformers.TrainingArguments, task, seed, folder)
    trainer = transformers.Trainer(model=net, args=arguments, train_dataset=train, processing_class=tokenizer)
    trainer.train()
    logits = trainer.predict(encoded[1]).predictions
    return logits[:, 0].astype(np.float64) if number else logits.argmax(-1)


def transformers_tags(model: Path, task: str, rows: Sequence[Rows], seed: int, folder: Path) -> Any:
    """Learn the tag of each word's first piece by Trainer."""
    import transformers

    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    names = sorted({tag for row in rows[0] for tag in row["tags"]})

    def encoded(row: dict[str, Any]) -> Any:
        each = tokenizer(row["words"], is_split_into_words=True, truncation=True, max_length=LENGTH)
        words = each.word_ids()
        begins = [word is not None and word != before for word, before in zip(words, [None, *words], strict=False)]
        tags = [names.index(row["tags"][word]) if first and row["tags"][word] in names else -100
                for word, first in zip(words, begins, strict=True)]  # fmt: skip
        return {**each, "labels": tags}

    net = transformers.AutoModelForTokenClassification.from_pretrained(model, num_labels=len(names))
    trainer = transformers.Trainer(
        model=net,
        args=arguments_of(transformers.TrainingArguments, task, seed, folder),
        train_dataset=[encoded(row) for row in rows[0]],
        data_collator=transformers.DataCollatorForTokenClassification(tokenizer),
    )
    trainer.train()
    judged = [encoded(row) for row in rows[1]]
    answers = trainer.predict(judged).predictions.argmax(-1)
    given = [[names[tag] for tag, label in zip(each, item["labels"], strict=False) if label != -100]
             for each, item in zip(answers, judged, strict=True)]  # fmt: skip
    return [tags + ["O"] * (len(row["tags"]) - len(tags)) for tags, row in zip(given, rows[1], strict=True)]


def sentence_transformers(model: Path, task: str, rows: Sequence[Rows], seed: int, folder: Path) -> Any:
    """Learn vectors whose cosine is the number by sentence-transformers."""
    import sentence_transformers as library
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from transformers import set_seed

    set_seed(seed)
    net = library.SentenceTransformer(str(model), device="cpu")
    net.max_seq_length = LENGTH
    pairs = [{**row, "label": row["label"] / 5} for row in rows[0]]
    trainer = library.SentenceTransformerTrainer(
        model=net,
        args=arguments_of(library.SentenceTransformerTrainingArguments, task, seed, folder),
        train_dataset=Dataset.from_list(pairs),
        loss=CosineSimilarityLoss(net),
    )
    trainer.train()
    one, other = (net.encode([row[side] for row in rows[1]], normalize_embeddings=True) for side in ("text", "second"))
    return (one * other).sum(1).astype(np.float64)


def setfit(model: Path, task: str, rows: Sequence[Rows], seed: int, folder: Path) -> Any:
    """Learn pairs of texts, then a logistic regression, by SetFit."""
    library = importlib.import_module("setfit")
    from datasets import Dataset

    net = library.SetFitModel.from_pretrained(str(model), device="cpu")
    net.model_body.max_seq_length = LENGTH
    arguments = library.TrainingArguments(
        str(folder), batch_size=BATCH, max_steps=len(rows[0]) // BATCH, body_learning_rate=RATES[task], seed=seed,
        report_to=[], save_strategy="no", logging_strategy="no", show_progress_bar=False,
    )  # fmt: skip
    library.Trainer(model=net, args=arguments, train_dataset=Dataset.from_list(rows[0])).train()
    return net.predict([row["text"] for row in rows[1]], use_labels=False)


SIDES: dict[str, tuple[Side, ...]] = {
    "cola": (cloze, transformers_texts, setfit),
    "sst2": (cloze, transformers_texts, setfit),
    "stsb": (cloze, transformers_texts, similarity, sentence_transformers),
    "wnut17": (cloze, transformers_tags),
}


def run(model: Path, task: str, side: Side, steps: int, seed: int) -> tuple[float, float]:
    """Learn and judge in this process; return the score and the CPU seconds of a step."""
    rows = rows_of(task, "train", steps * BATCH), rows_of(task, "dev", JUDGED)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        answers = side(model, task, rows, seed, Path(folder))
    seconds = time.process_time() - began
    score = answers if isinstance(answers, float) else score_of(task, rows[1])(answers)
    return score, seconds / (len(rows[0]) // BATCH)


def row_of(model: Path, task: str, side: Side, steps: int, seeds: int) -> str:
    """Return a row of the table: every seed in this process, after a short run in which all is imported."""
    import torch

    torch.set_num_threads(1)
    run(model, task, side, 4, 0)
    scores, seconds = zip(*(run(model, task, side, steps, seed) for seed in range(seeds)), strict=True)
    spread = f"{np.mean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"
    taken = f"{np.median(seconds):.3f} | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:,.0f}"
    return f"| {task} | {side.__name__} | {spread} | {taken} | {lines_of(side)} |"


def lines_of(side: Side) -> int:
    """Return the lines of a function without its first and its docstring: what a user of the library types."""
    lines = [line for line in inspect.getsource(side).splitlines() if line.strip()]
    return 1 if side in (cloze, similarity) else len(lines) - 2


# One large table.


def large_table(model: Path, rows: int) -> None:
    """Print rows a second and memory of three commands on a table of SST-2's sentences over and over."""
    sentences = rows_of("sst2", "train")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.jsonl"
        with table.open("w", encoding="utf-8") as file:
            for number in range(rows):
                row = sentences[number % len(sentences)]
                file.write(json.dumps({"text": f"{row['text']} {number}", "label": row["label"]}) + "\n")
        dev, out = Path(folder) / "dev.jsonl", f"{folder}/out"
        dev.write_text("".join(table.read_text(encoding="utf-8").splitlines(keepends=True)[:200]), encoding="utf-8")
        tuned = ["--evaluate", str(dev), "--output", out, "--set", "max_length=32", "--set", "epochs=1"]
        tuned += ["--accept", "evaluation-in-training"]  # what is measured is the cost
        for command in (
            ["finetune", "classes", str(model), "--train", str(table), *tuned, "--set", "batch=256"],
            ["predict", out, str(table), "--output", f"{folder}/answers.jsonl"],
            ["embed", str(model), str(table), "--output", f"{folder}/vectors.parquet"],
        ):
            began = time.monotonic()
            process = subprocess.Popen([sys.executable, "-m", "flows.main", *command], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            seconds = used.ru_utime + used.ru_stime
            ended = f"{time.monotonic() - began:.0f} s by the clock" if status == 0 else f"ended with {status}"
            speed = f"{rows / seconds:,.0f} rows a CPU second, {used.ru_maxrss / 1000:,.0f} MB"
            print(f"{command[0]}: {speed}; {ended}", flush=True)


def main() -> int:
    """Run every side on every task with every seed, each in a process of its own; print a row for each side."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description="Next to other tools.")
    parser.add_argument("--model", type=Path, required=True, help="a pre-trained folder")
    parser.add_argument("--steps", type=int, default=200, help="of 16 rows (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each side (default: %(default)s)")
    parser.add_argument("--task", choices=SIDES, action="append", help="only this one")
    parser.add_argument("--table", type=int, help="rows of one large table, in place of all else")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.table:
        large_table(asked.model, asked.table)
        return 0
    if asked.one:
        print(row_of(asked.model, asked.task[0], globals()[asked.one], asked.steps, asked.seeds))
        return 0
    print("| task | side | score, mean (lowest to highest) | CPU s a step | MB | lines |\n|---|---|---|---|---|---|")
    for task in asked.task or SIDES:
        for side in SIDES[task]:
            one = ["--model", asked.model, "--steps", asked.steps, "--seeds", asked.seeds, "--task", task]
            command = [sys.executable, "-m", "benchmarks.beside", *map(str, one), "--one", side.__name__]
            print(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout, end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
