"""Models: trained on shards, fine-tuned on a task, asked for predictions and for vectors.

    model = cloze.train(shards, "bert-tiny", steps=1000, batch=32)
    tuned = cloze.finetune(model, "classes", train=rows, evaluate=others)
    cloze.predict(tuned, ["Ship it today."])
    cloze.embed(model, ["Ship it today."])

torch works in processes of its own, as for the command: nothing here imports it, and an interrupt ends them. What is
fine-tuned in a folder resumes there, and what is trained in a store resumes and is reused there.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from cloze.shards import Shards
from cloze.workspace import Workspace, listed
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.settings import bind
from flows.command.tasks.embed import embed_texts
from flows.command.tasks.finetune import FinetuneAsked, TaskFiles, finetune_events
from flows.command.tasks.predict import predict_file
from flows.command.trainer_process import model_folder
from flows.run.record.example_shares import nothing_said
from trainer.build import plan_model, read_events
from trainer.metrics import Event
from trainer.settings.model import FAMILIES, ModelSettings
from trainer.settings.training import TrainingSettings
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import EmbedSettings

Rows = Iterable[str] | Iterable[Mapping[str, Any]] | str | Path


class Model:
    """A model in a folder of Hugging Face's form, which `AutoModel.from_pretrained(model.folder)` opens.

    history: what was measured on the way, in order: a dictionary for each logged step and each evaluation
    """

    def __init__(self, address: str | Path, history: Iterable[Event] = (), workspace: Workspace | None = None) -> None:
        """For the functions of this package, which take an address in place of a model."""
        self.address, self.history, self._workspace = str(address), [dict(event) for event in history], workspace

    @property
    def folder(self) -> Path:
        """The folder. Raises InputError for a model in an object store, whose address the functions here take."""
        with model_folder(self.address) as folder:
            if not folder.is_dir():
                raise InputError(f"{self.address} is in an object store: give the model itself, or copy it first.")
            return folder

    @property
    def scores(self) -> dict[str, float]:
        """The numbers of the last evaluation: losses of a pre-training, scores of a fine-tuning."""
        last: Event = next((event for event in reversed(self.history) if event["event"] == "evaluation"), {})
        return {name: value for name, value in last.items() if isinstance(value, float)}

    def __repr__(self) -> str:
        return f"Model({self.address!r})"


def train(
    shards: Shards,
    model: str | Mapping[str, Any] = "bert-tiny",
    *,
    steps: int,
    batch: int = 32,
    name: str = "",
    phase: Mapping[str, Any] | None = None,
    **training: Any,
) -> Model:
    """Train an encoder from random weights on shards, in their store.

    model:    a family and a size ("bert-tiny", "roberta-base", "modernbert-base"), or the table `[model]` of a recipe
    steps:    optimizer steps
    batch:    examples of a step
    name:     of the artifact; default: that of the shards
    phase:    further keys of the phase: `weight_decay`, `batch_ramp`, `mask_rate`, ...
    training: keys of the table `[training]`: `learning_rate` (1e-4), `warmup_steps`, `precision`, `seed`, ...

    Called again with the same arguments in the same store, it returns the same model, and resumes one that was
    interrupted. Raises InputError: an unknown setting, shards that do not suit the model, no torch; TrainingFailed
    where the trainer ends for another reason, with the end of its log.
    """
    workspace, manifest = shards._workspace, shards._set.manifest
    if problem := nothing_said(manifest.name, manifest):
        raise InputError(problem)
    settings = bind(ModelSettings, listed(family_table(model) if isinstance(model, str) else model), "model")
    table = {**training, "phase": [{"steps": steps, "batch": batch, **(phase or {})}]}
    learnt = bind(TrainingSettings, listed(table), "training")
    place = workspace.place

    def work() -> Manifest:
        [trained] = workspace.perform(
            [plan_model(place, name or manifest.name, [manifest], shards._vocabulary_artifact, settings, learnt)]
        )
        return trained

    trained = workspace.past_damage(work)
    return Model(place.at(trained.folder), read_events(place, trained), workspace)


def family_table(name: str) -> dict[str, str]:
    """Return the table of a model that is named by its family and size. Raises InputError.

    >>> family_table("bert-tiny")
    {'family': 'bert', 'size': 'tiny'}
    """
    family, _, size = name.rpartition("-")
    if not family:
        known = ", ".join(f"{each.name}-{next(iter(each.sizes))}" for each in FAMILIES.values())
        raise InputError(f"model = {name!r} is no family and size: name both, as in {known}.")
    return {"family": family, "size": size}


def finetune(
    model: Model | str | Path,
    task: str,
    train: Rows,
    evaluate: Rows,
    *,
    output: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    progress: bool = True,
    accept: Sequence[str] = (),
    **settings: Any,
) -> Model:
    """Fine-tune a model on labelled examples, which are looked at first.

    model:    a model, or the address of one: a folder, an artifact of a store, a store, a release (STORE@NAME)
    task:     what is learnt: "classes", "number", "tags", "answers", "similarity", ... (`cloze finetune --help`)
    train:    rows to learn from, or their file: dictionaries with `text` (and `second`) and `label`, as the task asks
    evaluate: rows, or their file, by which each epoch is judged
    output:   folder of the result, empty or new; default: a temporary one. Called again with the same arguments, an
              interrupted fine-tuning resumes there
    columns:  where the rows have another name for a role: `{"text": "sentence"}`
    accept:   findings of `cloze check` that stop nothing, by name
    settings: of the task and of the fine-tuning: `epochs`, `learning_rate`, `batch`, `seed`, `restarts`, ...

    `history` of the result has a dictionary for each evaluation. Raises InputError, or TrainingFailed.
    """
    workspace = Workspace(progress=progress)
    named, output = dict(columns or {}), Path(output or mkdtemp(dir=workspace.folder) + "/model")
    files = TaskFiles(rows_file(train, "train", workspace, named), rows_file(evaluate, "evaluate", workspace, named))
    history: list[Event] = []
    events = finetune_events(FinetuneAsked(task, address_of(model), files, output, settings, accept))
    start: Event = {"steps": 0}
    for start in events:
        if start["event"] != "warning":
            break
        workspace.bars.tell(f"warning: {start['message']}")
    with workspace.bars.of(f"{task} steps", max(1, start["steps"])) as advance:
        for event in events:
            if event["event"] == "warning":
                workspace.bars.tell(f"warning: {event['message']}")
            if "step" in event:
                advance(event["step"])
            if event["event"] in ("step", "evaluation"):
                history.append(event)
    return Model(output, history, workspace)


def predict(
    model: Model | str | Path, rows: Rows, *, columns: Mapping[str, str] | None = None, progress: bool = True
) -> list[dict[str, Any]]:
    """Return what a fine-tuned model predicts for each row: a dictionary as a line of `cloze predict` is.

    model:   what `finetune` returned, or an address
    rows:    texts, or dictionaries as in fine-tuning, or a file of them
    columns: where the rows have another name for a role

    A dictionary has `line`, the number of its row from 1; of "classes" `label` and `probabilities`. Rows that cannot
    be used have none. Raises InputError: rows of another task, no fine-tuned model.
    """
    workspace = Workspace(progress=progress)
    file = rows_file(rows, "rows", workspace, dict(columns or {}))
    output = workspace.folder / "answers.jsonl"
    predict_file(address_of(model), file, output, labelled=False, tell=workspace.bars.tell)
    with output.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def embed(
    model: Model | str | Path,
    texts: Rows,
    *,
    columns: Mapping[str, str] | None = None,
    progress: bool = True,
    **settings: Any,
) -> npt.NDArray[np.float32]:
    """Return a vector for each text: float32 [N, H], in the order of the texts.

    model:    any model, or the address of one
    texts:    texts, or dictionaries with `text`, or a file of them
    settings: `pooling` ("mean", "cls", "max", ...), `prompt` (one of the folder's), `layers`, `combine`, `max_length`,
              `by` ("text", "word" or "token": then N is their number), ...

    Raises InputError: an unknown setting, a text that is none.
    """
    workspace = Workspace(progress=progress)
    file, output = rows_file(texts, "texts", workspace, dict(columns or {})), workspace.folder / "vectors.parquet"
    asked = bind(EmbedSettings, listed(settings), "embed")
    embed_texts(address_of(model), file, asked, output, workspace.bars.tell)
    column = pq.read_table(output, columns=["vector"]).column("vector").combine_chunks()
    vectors: npt.NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    return vectors.reshape(len(column), column.type.list_size)


def address_of(model: Model | str | Path) -> str:
    """Return where a model is."""
    return model.address if isinstance(model, Model) else str(model)


def rows_file(rows: Rows, name: str, workspace: Workspace, columns: dict[str, str]) -> FileSettings:
    """Return the file of some rows, which are written to one where they are not in a file yet."""
    if isinstance(rows, str | Path):
        return FileSettings(path=str(Path(rows).resolve()), columns=columns)
    given: list[str | Mapping[str, Any]] = list(rows)
    if any(isinstance(row, str) for row in given):  # whatever the column was called from which the model learnt
        columns = {"text": "text", **columns}
    tables = ({"text": row} if isinstance(row, str) else row for row in given)
    return FileSettings(path=str(workspace.write_rows(tables, name)), columns=columns)
