"""The memory that labelled rows take, once they are read and encoded for fine-tuning.

    python -m benchmarks.task_memory --model FOLDER --column text=sentence --rows 500000 train.tsv

A process that does nothing else reads the rows of a table with a header, as the task `classes` (or `--task`) does,
encodes them with the tokenizer of a model's folder, and prints one line of JSON: rows and tokens, the bytes of all
texts, the most memory that was resident before the file was opened and at any time, and what a row took besides its
text. `--rows` writes the rows of the file again and again until there are so many. Nothing is learnt.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory import peak_bytes
from corpora.errors import InputError
from trainer.families.contract import ModelInputs
from trainer.huggingface.config import CONFIG, read_config, special_ids
from trainer.tasks.data import encode, read_file
from trainer.tasks.encoding import TextEncoder
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.registry import read_task


def repeated(path: Path, rows: int, target: Path) -> None:
    """Write so many rows of a table with a header, those of a file over and over."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    with target.open("w", encoding="utf-8") as file:
        file.write(f"{header}\n")
        for number in range(rows):
            file.write(f"{lines[number % len(lines)]}\n")


def measure(model: Path, table: Mapping[str, Any], file: FileSettings) -> dict[str, Any]:
    """Read and encode a file; what it came to. Raises InputError."""
    config = read_config(model / CONFIG)
    inputs = ModelInputs(vocab_size=config["vocab_size"], special_ids=special_ids(model, config))
    task = read_task(table)
    encoder = TextEncoder.of(model, inputs, task.usual_length)
    begun, start = peak_bytes(), time.process_time()
    found = read_file(task, file)
    read = time.process_time() - start
    encoded = encode(task.fitted(found.examples, file.path), found, encoder)
    seconds = time.process_time() - start
    rows, peak = len(found), peak_bytes()
    text = sum(len(part.encode()) for example in found.examples for part in example[:2] if isinstance(part, str))
    return {
        "rows": rows,
        "items": len(encoded.items),
        "tokens": encoded.ledger.figures["tokens"],
        "text_bytes": text,
        "begun_bytes": begun,
        "peak_bytes": peak,
        "bytes_a_row_besides_text": round((peak - begun - text) / rows),
        "read_cpu_seconds": round(read, 2),
        "rows_a_cpu_second": round(rows / seconds),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what reading and encoding came to, as one line of JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.task_memory", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("file", type=Path, help="a table of labelled rows, with a header")
    parser.add_argument("--model", type=Path, required=True, help="folder of a model with its tokenizer")
    parser.add_argument("--task", type=json.loads, default={"kind": "classes"}, help="of whole texts, as JSON")
    parser.add_argument("--column", action="append", default=[], help="role=column, as of `cloze finetune`")
    parser.add_argument("--rows", type=int, default=0, help="of the table (default: those of the file, once)")
    asked = parser.parse_args(arguments)
    columns = dict(each.partition("=")[::2] for each in asked.column)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = asked.file
            if asked.rows:
                path = Path(folder) / f"rows{asked.file.suffix}"
                repeated(asked.file, asked.rows, path)
            print(json.dumps(measure(asked.model, asked.task, FileSettings(path=str(path), columns=columns))))
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
