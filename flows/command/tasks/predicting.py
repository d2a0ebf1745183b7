"""`cloze predict`: what a fine-tuned model says of a file's records, by the trainer's process."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from flows.command.models import model_folder, trainer_process
from flows.command.tasks.finetuning import ledger_line
from flows.stopping import scratch_folder
from trainer.launch import events
from trainer.tasks.formats.records import FileSettings


def predict_file(model: str, file: FileSettings, output: Path, labelled: bool, tell: Callable[[str], None]) -> None:
    """Write a line of JSON for each record; tell what was done, and scores. Raises InputError, or TrainingFailed."""
    with model_folder(model) as folder, scratch_folder() as scratch:
        path = scratch / "file.json"
        path.write_text(json.dumps(dataclasses.asdict(file)), encoding="utf-8")
        asked = ["predict", *(["--labelled"] if labelled else []), "--", str(folder), str(path), str(output.resolve())]
        with trainer_process(asked) as (said, log):
            for event in events(said, log):
                tell(f"{event['task']}: {ledger_line(event['ledger'])}")
                for name, value in event["scores"].items():
                    tell(f"{name} {value:.4g}")
    tell(f"Answers: {output}")
