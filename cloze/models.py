"""Models: trained on shards, fine-tuned on a task, asked for predictions and for vectors.

    model = cloze.train(shards, "bert-tiny", steps=1000, batch=32)
    tuned = cloze.finetune(model, "classes", train=rows, evaluate=others)
    cloze.predict(tuned, ["Ship it today."])
    cloze.embed(model, ["Ship it today."])

torch works in processes of its own, as for the command: nothing here imports it, and an interrupt ends them. What is
fine-tuned in a folder resumes there, and what is trained in a store resumes and is reused there.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze.inputs import InputData, resolve_input
from cloze.messages import to_python_json, translate_errors
from cloze.shards import Shards
from cloze.workspace import Workspace, to_toml_value
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.settings import bind_settings
from flows.command.check import check_data
from flows.command.finetune import FinetuneRequest, TaskFiles, finetune_events
from flows.command.trainer_process import open_model_folder
from flows.export.exported import open_new_folder
from flows.run.record.ledger_balance import explain_no_examples
from trainer.build import plan_model, read_events
from trainer.metrics import Event
from trainer.settings.model import FAMILIES, ModelSettings
from trainer.settings.training import TrainingSettings
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import EmbedSettings

LEARNING_DEFAULTS = {"max_unusable": FileSettings(path="").max_unusable}  # of rows that are only answered all may be

if TYPE_CHECKING:
    from trainer.tasks.loaded import LoadedModel


class Model:
    """A model in a folder of Hugging Face's form, which `AutoModel.from_pretrained(model.folder)` opens.

    It stays loaded in this process: its weights are read when it is first asked, on a GPU if there is one.

    history: what was measured on the way, in order: a dictionary for each logged step and each evaluation
    """

    def __init__(self, address: str | Path, history: Iterable[Event] = (), workspace: Workspace | None = None) -> None:
        """For the functions of this package: models come from `train`, `finetune` and `load_model`."""
        self.address, self.history, self._workspace = str(address), [dict(event) for event in history], workspace
        self._loaded = dict[Sequence[str], "LoadedModel"]()
        self._open_folders = ExitStack()
        finalize(self, self._open_folders.close)

    @property
    def folder(self) -> Path:
        """The folder. Raises InputError for a model in an object store: `save` copies it."""
        with open_model_folder(self.address) as folder:
            if not folder.is_dir():
                raise InputError(f"{self.address} is in an object store: copy it with model.save(folder).")
            return folder

    @property
    def scores(self) -> dict[str, float]:
        """The numbers of the last evaluation: losses of a pre-training, scores of a fine-tuning."""
        last: Event = next((event for event in reversed(self.history) if event["event"] == "evaluation"), {})
        return {name: value for name, value in last.items() if isinstance(value, float)}

    def encode(
        self,
        texts: Any,
        *,
        columns: Mapping[str, str] | None = None,
        reading: Mapping[str, Any] | None = None,
        progress: bool = True,
        **settings: Any,
    ) -> npt.NDArray[np.float32]:
        """Return a vector for each text: float32 [N, H], in the order of the texts.

        texts:    texts, dictionaries with `text`, a table or a file; of a `datasets.Dataset` such a one comes back,
                  with the column `vector`
        columns:  names of columns by role, if they differ: `{"text": "sentence"}`
        reading:  how a file is read: `format`, `header` (False: it has no names of columns), `ragged`
        settings: `pooling` ("mean", "cls", "max", ...), `prompt` (one of the folder's), `layers`, `combine`,
                  `max_length`, `by` ("text", "word" or "token": then N is their number), ...

        Raises InputError: an unknown setting, a text that is none.
        """
        workspace = Workspace(progress=progress)
        with translate_errors(workspace.folder):
            asked = bind_settings(EmbedSettings, to_toml_value(settings), "embed")
            given, file = to_rows_file(texts, "texts", workspace, columns, reading)
            loaded = self._load(("models", "tasks"))
            with workspace.bars.show("texts", max(1, given.num_rows or 0)) as advance:
                vectors = loaded.embed(file, asked, advance, is_empty=given.num_rows == 0)
        if given.dataset is None or asked.by != "text":
            return vectors
        column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
        dataset: npt.NDArray[np.float32] = with_columns(given.dataset, {"vector": column})
        return dataset

    def predict(
        self,
        rows: Any,
        *,
        columns: Mapping[str, str] | None = None,
        reading: Mapping[str, Any] | None = None,
        progress: bool = True,
    ) -> list[dict[str, Any]]:
        """Return what this fine-tuned model predicts for each row: a dictionary as a line of `cloze predict` is.

        rows:    texts, dictionaries as in fine-tuning, a table or a file; of a `datasets.Dataset` such a one comes
                 back, with a column for each key of the dictionaries, `predicted_...` if it has such a column
        columns: names of columns by role, if they differ
        reading: how a file is read: `format`, `header` (False: it has no names of columns), `ragged`

        A dictionary has `line`, the number of its row from 1; of "classes" `label` and `probabilities`. A row that
        cannot be used has the reason, `unusable`. Raises InputError: rows of another task, no fine-tuned model.
        """
        workspace = Workspace(progress=progress)
        with translate_errors(workspace.folder):
            given, file = to_rows_file(rows, "rows", workspace, columns, reading)
            loaded = self._load(("tasks", "models"))
            with workspace.bars.show("rows", max(1, given.num_rows or 0)):
                answers = [*loaded.predict(file, given.written)] if given.num_rows != 0 else []
        if given.dataset is None:
            return answers
        names = dict.fromkeys(name for answer in answers for name in answer if name != "line")
        columns_of = {name: pa.array([answer.get(name) for answer in answers]) for name in names}
        dataset: list[dict[str, Any]] = with_columns(given.dataset, columns_of)
        return dataset

    def fill(self, text: str, *, top: int = 5) -> list[list[dict[str, Any]]]:
        """Return for each [MASK] of a text the most probable tokens: `token`, `text`, `id` and `probability` of each.

        Raises InputError: no mask, a text that is too long, a model that guesses no words.
        """
        with translate_errors():
            if not isinstance(text, str):
                raise InputError(f"text is of the type {type(text).__name__}: give one text with [MASK] in it.")
            return self._load(("models", "tasks")).fill(text, top)

    def save(self, folder: str | Path) -> None:
        """Copy the model's files into a new folder. Raises InputError."""
        with translate_errors(), open_model_folder(self.address) as own, open_new_folder(Path(folder)) as new:
            copytree(own, new, dirs_exist_ok=True)

    def _load(self, kinds: Sequence[str]) -> "LoadedModel":
        """Load the model once, and return it. kinds: kinds of artifacts; of a store the first that it has is loaded"""
        if kinds not in self._loaded:
            from trainer.tasks.loaded import LoadedModel  # torch is slow to import

            self._loaded[kinds] = LoadedModel(self._open_folders.enter_context(open_model_folder(self.address, kinds)))
        return self._loaded[kinds]

    def __repr__(self) -> str:
        return f"Model({self.address!r})"


def load_model(address: str | Path) -> Model:
    """Open a model: a folder of ours or of Hugging Face's form, an artifact, a store, or a release (STORE@NAME).

    Raises InputError if there is none.
    """
    model = to_model(address)
    with translate_errors(), open_model_folder(model.address):
        return model


def train(
    shards: Shards,
    model: str | Mapping[str, Any] = "bert-tiny",
    *,
    steps: int,
    batch: int = 32,
    name: str = "",
    phase: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **training: Any,
) -> Model:
    """Train an encoder from random weights on shards, in their store.

    model:    a family and a size ("bert-tiny", "roberta-base", "modernbert-base"), or the table `[model]` of a recipe
    steps:    optimizer steps
    batch:    examples of a step
    name:     of the artifact; default: that of the shards
    phase:    further keys of the phase: `weight_decay`, `batch_ramp`, `mask_rate`, ...
    progress: whether bars are shown; default: as for the shards
    training: keys of the table `[training]`: `learning_rate` (1e-4), `warmup_steps`, `precision`, `seed`, ...

    Called again with the same arguments in the same store, it returns the same model, and resumes one that was
    interrupted. Raises InputError: an unknown setting, shards that do not suit the model, no torch; TrainingFailed
    if the trainer ends for another reason, with the end of its log.
    """
    if not isinstance(shards, Shards):
        raise InputError(
            f"shards is of the type {type(shards).__name__}: give what cloze.build_shards or cloze.open_shards returns."
        )
    workspace, manifest = shards._workspace.with_progress(progress), shards._set.manifest
    if problem := explain_no_examples(manifest.name, manifest):
        raise InputError(problem)
    with translate_errors(workspace.folder):
        settings = bind_settings(
            ModelSettings, to_toml_value(parse_model_name(model) if isinstance(model, str) else model), "model"
        )
        table = {**training, "phase": [{"steps": steps, "batch": batch, **(phase or {})}]}
        learnt = bind_settings(TrainingSettings, to_toml_value(table), "training")
    place = workspace.place

    def work() -> Manifest:
        [trained] = workspace.perform(
            [plan_model(place, name or manifest.name, [manifest], shards._vocabulary_artifact, settings, learnt)]
        )
        return trained

    with translate_errors(workspace.folder):
        trained = workspace.run_past_damage(work)
    return Model(place.to_address(trained.folder), read_events(place, trained), workspace)


def parse_model_name(name: str) -> dict[str, str]:
    """Return the table of a model that is named by its family and size. Raises InputError if it names no family.

    >>> parse_model_name("bert-tiny")
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
    train: Any,
    evaluate: Any,
    *,
    output: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: bool = True,
    accept: Sequence[str] = (),
    **settings: Any,
) -> Model:
    """Fine-tune a model on labelled examples, after a check of them.

    model:    a model, or the address of one: a folder, an artifact of a store, a store, a release (STORE@NAME)
    task:     what is learnt: "classes", "number", "tags", "answers", "similarity", ... (`cloze finetune --help`)
    train:    rows to learn from, or their file: dictionaries with `text` (and `second`) and `label`, as the task asks
    evaluate: rows, or their file, by which each epoch is judged
    output:   folder of the result, empty or new; default: a temporary one. Called again with the same arguments, an
              interrupted fine-tuning resumes there
    columns:  names of columns by role, if they differ: `{"text": "sentence"}`
    reading:  how they are read: `format`, `header` (False: no names of columns), `max_unusable` (0.01 of the rows)
    accept:   findings of `cloze check` that stop nothing, by name
    settings: of the task and of the fine-tuning: `epochs`, `learning_rate`, `batch`, `seed`, `restarts`, ...

    `history` of the result has a dictionary for each evaluation. Raises InputError, or TrainingFailed.
    """
    workspace = Workspace(progress=progress)
    output = Path(output or mkdtemp(dir=workspace.folder) + "/model")
    with translate_errors(workspace.folder):
        files = TaskFiles(
            training=to_rows_file(train, "train", workspace, columns, {**LEARNING_DEFAULTS, **(reading or {})})[1],
            evaluation=to_rows_file(evaluate, "evaluate", workspace, columns, {**LEARNING_DEFAULTS, **(reading or {})})[
                1
            ],
        )
        asked = FinetuneRequest(task, to_model(model).address, files, output, settings, accept)
        history = collect_history(finetune_events(asked), task, workspace)
    return Model(output, history, workspace)


def collect_history(events: Iterator[Event], task: str, workspace: Workspace) -> list[Event]:
    """Consume the events of a fine-tuning with a bar, and return its steps and evaluations."""
    history: list[Event] = []
    start: Event = {"steps": 0}
    for start in events:
        if start["event"] != "warning":
            break
        workspace.tell(f"warning: {start['message']}")
    with workspace.bars.show(f"{task} steps", max(1, start["steps"])) as advance:
        for event in events:
            if event["event"] == "warning":
                workspace.tell(f"warning: {event['message']}")
            if "step" in event:
                advance(event["step"])
            if event["event"] in ("step", "evaluation"):
                history.append(event)
    return history


def predict(model: Model | str | Path, rows: Any, **asked: Any) -> list[dict[str, Any]]:
    """Return what a fine-tuned model predicts for each row: `load_model(model).predict(rows, ...)`."""
    return to_model(model).predict(rows, **asked)


def embed(model: Model | str | Path, texts: Any, **asked: Any) -> npt.NDArray[np.float32]:
    """Return a vector for each text: `load_model(model).encode(texts, ...)`."""
    return to_model(model).encode(texts, **asked)


def fill(model: Model | str | Path, text: str, *, top: int = 5) -> list[list[dict[str, Any]]]:
    """Return for each [MASK] of a text the most probable tokens: `load_model(model).fill(text)`."""
    return to_model(model).fill(text, top=top)


def check(
    task: str,
    train: Any,
    *evaluate: Any,
    model: Model | str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    reading: Mapping[str, Any] | None = None,
    accept: Sequence[str] = (),
    **settings: Any,
) -> dict[str, Any]:
    """Check labelled rows before anything is learned from them, as `finetune` does itself.

    train:    rows to learn from, as for `finetune`
    evaluate: further rows, to judge by
    model:    the model with the tokenizer that counts tokens
    settings: of the task and of the fine-tuning: `labels`, `max_length`, ...

    Returns what `cloze check --json` prints. Raises InputError.
    """
    workspace = Workspace(progress=False)
    with translate_errors(workspace.folder):
        named = [("train", train), *((f"evaluate{number or ''}", rows) for number, rows in enumerate(evaluate))]
        asked = {**LEARNING_DEFAULTS, **(reading or {})}
        files = [to_rows_file(rows, name, workspace, columns, asked)[1] for name, rows in named]
        address = None if model is None else to_model(model).address
        report: dict[str, Any] = to_python_json(
            check_data(files, task, to_toml_value(settings), address, accept).to_json(), workspace.folder
        )
        return report


def evaluate(
    model: Model | str | Path,
    suite: str | Path,
    *,
    data: str | Path | None = None,
    output: str | Path = "evaluation",
    compare: Model | str | Path | None = None,
    control: bool = False,
    accept: Sequence[str] = (),
    progress: bool = True,
) -> dict[str, Any]:
    """Fine-tune a model on each task of a suite, several times; return the table that `cloze evaluate` writes as JSON.

    suite:   a suite's file, or the name of one that comes with Cloze: "glue", "superglue"
    data:    folder of the tasks' files; default: the suite's own
    output:  folder for runs and tables: what is finished there is not done again
    compare: another model, for a paired test on the same tasks; control: the same model from first weights

    Raises InputError, or TrainingFailed.
    """
    from flows.command.evaluate import (  # it knows reports, exports and the command line
        JSON,
        EvaluationOptions,
        evaluate_model,
    )

    workspace = Workspace(progress=progress)
    with translate_errors(workspace.folder):
        asked = EvaluationOptions(
            model=to_model(model).address,
            suite=str(suite),
            data=None if data is None else Path(data),
            output=Path(output),
            compare=None if compare is None else to_model(compare).address,
            control=control,
            accept=tuple(accept),
        )
        evaluate_model(asked, workspace.tell)
        table: dict[str, Any] = json.loads((asked.output / JSON).read_text(encoding="utf-8"))
        return table


def to_model(model: Any) -> Model:
    """Return `model` if it is a model, otherwise the model at that address. Raises InputError for other types."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, str | Path):
        raise InputError(
            f"model is of the type {type(model).__name__}: give what cloze.train, cloze.finetune or cloze.load_model "
            "returns, or the address of a model."
        )
    return Model(model)


def to_rows_file(
    rows: Any,
    name: str,
    workspace: Workspace,
    columns: Mapping[str, str] | None,
    reading: Mapping[str, Any] | None = None,
) -> tuple[InputData, FileSettings]:
    """Return the resolved input of an argument, and the settings to read its file with.

    Args:
        rows: What the caller gave.
        name: The name of the argument.
        workspace: Where rows are written.
        columns: The names of columns by role.
        reading: Further settings of the file.

    Raises:
        InputError: If the rows cannot be read, or a setting is unknown.
    """
    given = resolve_input(rows, name, workspace.folder)
    own = {"text": "text"} if given.texts or given.documents else {}  # whatever its name was in fine-tuning
    settings = {"max_unusable": 1.0, **(reading or {}), "columns": {**own, **(columns or {})}}
    return given, bind_settings(FileSettings, {**settings, "path": str(Path(given.path).resolve())}, "reading")


def with_columns(dataset: Any, columns: Mapping[str, pa.Array]) -> Any:
    """Return a `datasets.Dataset` with further columns; a name that it has already gets the prefix `predicted_`."""
    for name, column in columns.items():
        while name in dataset.column_names:
            name = f"predicted_{name}"
        dataset = dataset.add_column(name, column)
    return dataset
