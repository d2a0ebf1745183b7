"""Do we fine-tune as well as transformers' own trainer? The same checkpoint, the same rows, several seeds of each.

    python -m benchmarks.beside_trainer --model FOLDER          the samples in ../shared/data, or in $CLOZE_SHARED/data
    python -m benchmarks.beside_trainer --model FOLDER --seeds 5 --rows 2000

Sentences with a sentiment (SST-2: the first `rows` of its training file, all of its dev file), AdamW, linear warm-up
over a tenth of the steps and decay to zero, batch 32, three epochs, the last epoch judged. Theirs is `Trainer` on
`AutoModelForSequenceClassification` with dynamic padding. Both draw their head and the order of rows by themselves, so
runs differ; what is compared are the means: their difference, in standard errors of it. One thread. Needs the extras
`trainer`, `reference` and `accelerate`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.record import processor
from corpora.errors import InputError
from trainer.tasks.finetune import finetune
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.saving import RECORD
from trainer.tasks.settings import FinetuneJob, FinetuneSettings
from trainer.training.parallel import joined

EPOCHS, BATCH, WARMUP, DECAY = 3, 32, 0.1, 0.01
LENGTH = 128
Rows = list[tuple[int, str]]  # label, sentence


def read_rows(path: Path, number: int | None = None) -> Rows:
    """Label and sentence of each row."""
    lines = path.read_text(encoding="utf-8").splitlines()[:number]
    return [(int(label), text) for label, _, text in (line.partition("\t") for line in lines)]


def ours(model: Path, files: Sequence[FileSettings], seed: int, rate: float) -> float:
    """Accuracy of the last epoch."""
    with tempfile.TemporaryDirectory() as folder:
        settings = FinetuneSettings(
            epochs=EPOCHS, batch=BATCH, learning_rate=rate, warmup=WARMUP, weight_decay=DECAY, layer_decay=1.0,
            epsilon=1e-8, seed=seed, keep="last", max_length=LENGTH, log_every=10_000,
        )  # fmt: skip
        output = Path(folder) / "out"
        job = FinetuneJob(
            model=str(model),
            output=str(output),
            task={"kind": "classes"},
            training=files[0],
            evaluation=files[1],
            settings=settings,
        )
        said, sys.stdout = sys.stdout, sys.stderr
        try:
            with joined("cpu") as ranks:
                finetune(job, ranks)
        finally:
            sys.stdout = said
        record: dict[str, Any] = json.loads((output / RECORD).read_text(encoding="utf-8"))
        accuracy: float = record["restarts"][0]["epochs"][-1]["accuracy"]
        return accuracy


def theirs(model: Path, training: Rows, judged: Rows, seed: int, rate: float) -> float:
    """The same by their trainer."""
    import transformers

    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    net = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=2)

    def encoded(rows: Rows) -> list[dict[str, Any]]:
        return [{**tokenizer(text, truncation=True, max_length=LENGTH), "labels": label} for label, text in rows]

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, per_device_eval_batch_size=64,
            learning_rate=rate, warmup_steps=WARMUP, weight_decay=DECAY, seed=seed, report_to=[], save_strategy="no",
            disable_tqdm=True, use_cpu=True, logging_strategy="no",
        )  # fmt: skip
        trainer = transformers.Trainer(
            model=net,
            args=arguments,
            train_dataset=encoded(training),
            eval_dataset=encoded(judged),
            processing_class=tokenizer,
        )
        trainer.train()
        answers = trainer.predict(trainer.eval_dataset).predictions.argmax(-1)
    right: float = sum(int(said) == label for said, (label, _) in zip(answers, judged, strict=True)) / len(judged)
    return right


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn by both, several times, and compare the means; 0."""
    shared = Path(os.environ.get("CLOZE_SHARED", "../shared"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_trainer", description="Beside transformers'.")
    parser.add_argument("--model", type=Path, required=True, help="a pre-trained folder")
    parser.add_argument("--data", type=Path, default=shared / "data" / "tasks" / "sst2", help="(default: %(default)s)")
    parser.add_argument("--rows", type=int, default=2_000, help="learnt from (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=5e-4, help="the peak (default: %(default)s)")
    asked = parser.parse_args(arguments)
    if not asked.data.is_dir():
        print(f"{asked.data} is not there: nothing to compare.")
        return 0
    missing = [name for name in ("transformers", "accelerate") if find_spec(name) is None]
    if missing:
        raise InputError(f"{missing[0]} is not installed: this comparison needs the extras `reference`, `accelerate`.")
    torch.set_num_threads(1)
    training, judged = read_rows(asked.data / "train.tsv", asked.rows), read_rows(asked.data / "dev.tsv")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, rows in (("train", training), ("dev", judged)):
            path = Path(folder) / f"{name}.tsv"
            path.write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
            files.append(FileSettings(path=str(path), header=False, columns={"label": "1", "text": "2"}))
        found: dict[str, list[float]] = {"ours": [], "transformers": []}
        seconds = dict.fromkeys(found, 0.0)
        for seed in range(asked.seeds):
            for name in found:
                began = time.process_time()
                found[name].append(
                    ours(asked.model, files, seed, asked.rate)
                    if name == "ours"
                    else theirs(asked.model, training, judged, seed, asked.rate)
                )
                seconds[name] += time.process_time() - began
                print(f"{name}, seed {seed}: accuracy {found[name][-1]:.4f}", flush=True)
    print(f"{len(training):,} rows learnt, {len(judged):,} judged, {asked.seeds} seeds; {processor()}, one thread")
    errors = {name: statistics.stdev(scores) / len(scores) ** 0.5 for name, scores in found.items()}
    for name, scores in found.items():
        spread = f"{min(scores):.4f} to {max(scores):.4f}"
        print(f"{name}: mean {statistics.mean(scores):.4f} ({spread}), {seconds[name] / asked.seeds:.0f} CPU s each")
    difference = statistics.mean(found["ours"]) - statistics.mean(found["transformers"])
    error = sum(each**2 for each in errors.values()) ** 0.5
    print(f"difference {difference:+.4f}, {abs(difference) / error if error else 0:.1f} standard errors ({error:.4f})")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"benchmarks.beside_trainer: {error}")
