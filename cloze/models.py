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
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze.inputs import InputLocation, locate_input
from cloze.messages import to_python_json, translate_errors
from cloze.shards import Shards
from cloze.workspace import Workspace, to_toml_value
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.settings import bind_settings
from flows.command.check import check_data
from flows.command.control import compare_with_control
from flows.command.finetune import FinetuneRequest, TaskFiles, build_job, finetune_events
from flows.command.trainer_process import open_model_folder
from flows.export.exported import open_new_folder
from flows.run.record.ledger_balance import explain_no_examples
from trainer.build import plan_model, read_events
from trainer.huggingface.start_model import adapt_start, read_settings
from trainer.metrics import Event
from trainer.objectives.distillation import DistillationObjective
from trainer.settings.model import FAMILIES, ModelSettings
from trainer.settings.narrow import propose_model_settings, propose_training_settings
from trainer.settings.training import TrainingSettings
from trainer.start_weights import StartModel, read_start
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import EmbedSettings

TRAINING_ROWS = {"max_unusable": FileSettings(path="").max_unusable}  # of rows that are only answered all may be

if TYPE_CHECKING:
    from trainer.tasks.loaded import LoadedModel


class Model:
    """A model in a folder that `AutoModel.from_pretrained(model.folder)` of transformers opens.

    The weights are read at the first call, onto a GPU if there is one, and stay loaded in this process.

    Attributes:
        address: Path or URL of the model.
        history: One dictionary for each logged training step and each evaluation, in order.
        comparison: After `finetune` with `control=True`, the content of the control's file comparison.json: "answer"
            ("yes", "no" or "not shown"), "worth" (the answer with its scores, as text), "scores" and "comparison".
            Otherwise None.
    """

    def __init__(
        self,
        address: str | Path,
        history: Iterable[Event] = (),
        workspace: Workspace | None = None,
        comparison: dict[str, Any] | None = None,
    ) -> None:
        """Create a model. This is only for functions of this package. Use `train`, `finetune` or `load_model`."""
        self.address, self.history, self._workspace = str(address), [dict(event) for event in history], workspace
        self.comparison = comparison
        self._loaded = dict[Sequence[str], "LoadedModel"]()
        self._held = ExitStack()
        finalize(self, self._held.close)

    @property
    def folder(self) -> Path:
        """Local folder with the files of this model.

        Raises:
            InputError: If the model is in an object store (use `save` to copy it), or there is no model at its address.
        """
        with open_model_folder(self.address) as folder:
            if not folder.is_dir():
                raise InputError(f"{self.address} is in an object store: copy it with model.save(folder).")
            return folder

    @property
    def scores(self) -> dict[str, float]:
        """Metrics of the last evaluation in this model's history, by name.

        After pre-training they are losses and accuracies, and after fine-tuning scores of the task. Empty if there was
        no evaluation.
        """
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
        """Compute a vector for each text with this model: float32 [N, H], in the order of the texts.

        Args:
            texts: Texts, dictionaries with `text`, a table or a file. If this is a `datasets.Dataset`, it is returned
                with the column `vector`.
            columns: Maps each role to the name of its column, if they differ: `{"text": "sentence"}`.
            reading: How to read a file: `format`, `header` (False if it has no column names), `ragged` (True if rows
                may have more cells than the first line).
            progress: Whether to show progress bars.
            settings: Fields of `EmbedSettings`: `pooling` ("mean", "cls", "max", ...), `prompt` (the name of one in the
                model's folder), `layers`, `combine`, `max_length`, `by` ("text", "word" or "token", which N counts),
                ...

        Raises:
            InputError: If a setting is unknown, or an input is not a text.
        """
        workspace = Workspace(progress=progress)
        with translate_errors(workspace.folder):
            asked = bind_settings(EmbedSettings, to_toml_value(settings), "embed")
            given, file = locate_rows(texts, "texts", workspace, columns, reading)
            loaded = self._load(("models", "tasks"))
            with workspace.bars.show_bar("texts", max(1, given.num_rows or 0)) as advance:
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
        """Predict an answer for each row with this model, which must be fine-tuned.

        Args:
            rows: Texts, dictionaries as in fine-tuning, a table or a file. For a `datasets.Dataset`, the dataset is
                returned with one added column per key of the answers. A key that clashes with an existing column is
                prefixed with `predicted_`.
            columns: Maps each role, such as "text", to the name of its column, if they differ.
            reading: How to read a file: `format`, `header` (False if it has no column names), `ragged` (True if rows
                may have more cells than the first line).
            progress: Whether to show progress bars.

        Returns:
            One dictionary per row, as in a line of `cloze predict`. It has `line`, the one-based number of the row, and
            keys that depend on the kind of task. "classes": `label` (or `labels`) and `probabilities` by class.
            "number": `number`. "tags": `words`, `tags` and, if the tags mark spans, `spans`. "span": `text`, `begin`,
            `score`, `n_best` and, if questions may have no answer, `null_odds`. "choice": `label`, `text` and
            `probabilities`. "similarity": `cosine` and, if classes were trained, `label`. "retrieval": `similarities`.
            "next": `perplexity` and `tokens`. A row that cannot be used has `unusable`, the reason, instead.

        Raises:
            InputError: If the rows do not fit the model's task, or the model is not fine-tuned.
        """
        workspace = Workspace(progress=progress)
        with translate_errors(workspace.folder):
            given, file = locate_rows(rows, "rows", workspace, columns, reading)
            loaded = self._load(("tasks", "models"))
            with workspace.bars.show_bar("rows", max(1, given.num_rows or 0)):
                answers = [*loaded.predict(file, given.is_written)] if given.num_rows != 0 else []
        if given.dataset is None:
            return answers
        names = dict.fromkeys(name for answer in answers for name in answer if name != "line")
        columns_of = {name: pa.array([answer.get(name) for answer in answers]) for name in names}
        dataset: list[dict[str, Any]] = with_columns(given.dataset, columns_of)
        return dataset

    def fill(self, text: str, *, top: int = 5) -> list[list[dict[str, Any]]]:
        """Predict the most probable tokens for each [MASK] in a text with this model.

        Args:
            text: A text with one or more [MASK].
            top: Number of tokens to return for each mask.

        Returns:
            For each mask a list of dictionaries with `token`, `text`, `id` and `probability`, most probable first.

        Raises:
            InputError: If there is no mask, the text is too long, or the model does not predict words.
        """
        with translate_errors():
            if not isinstance(text, str):
                raise InputError(f"text is of the type {type(text).__name__}: give one text with [MASK] in it.")
            return self._load(("models", "tasks")).fill(text, top)

    def save(self, folder: str | Path) -> None:
        """Copy the files of this model to a new folder.

        Raises:
            InputError: If the folder exists and is not empty, or cannot be written.
        """
        with translate_errors(), open_model_folder(self.address) as own, open_new_folder(Path(folder)) as new:
            copytree(own, new, dirs_exist_ok=True)

    def _load(self, kinds: Sequence[str]) -> "LoadedModel":
        """Load the weights of this model, or return the loaded model if it was loaded before.

        Args:
            kinds: Kinds of stored results to look for in a store, such as "models" and "tasks" (fine-tuned models), in
                this order. The newest model of the first kind that exists is used.

        Raises:
            InputError: If there is no model at the address.
        """
        if kinds not in self._loaded:
            from trainer.tasks.loaded import LoadedModel  # torch is slow to import

            self._loaded[kinds] = LoadedModel(self._held.enter_context(open_model_folder(self.address, kinds)))
        return self._loaded[kinds]

    def __repr__(self) -> str:
        return f"Model({self.address!r})"


def load_model(address: str | Path) -> Model:
    """Open the model at an address. Its weights are read later, when they are first used.

    Args:
        address: A model folder in Cloze or Hugging Face format, an artifact, a store (its newest model), or a release
            (STORE@NAME).

    Raises:
        InputError: If there is no model.
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
    """Train an encoder on shards, from random weights or from another model, and write it to the store of the shards.

    If you repeat the call with the same arguments and store, training resumes, or the finished model is returned.

    Args:
        shards: The shards to train on.
        model: A family and a size ("bert-tiny", "roberta-base", "modernbert-base"), or the table `[model]` of a recipe.
            In a table, `start` and `objective.teacher` are models or their addresses, as `load_model` takes them.
        steps: Number of optimizer steps.
        batch: Number of examples in a step.
        name: Name of the artifact (default: the name of the shards).
        phase: Additional keys of the training phase: `weight_decay`, `batch_ramp`, `mask_rate`, ...
        progress: Whether to show progress bars (default: like the shards).
        training: Keys of the table `[training]`: `learning_rate`, `warmup_steps`, `precision`, `seed`, ... For a hidden
            size below 512, keys of both tables that you leave out get values for narrow models: a `learning_rate` of
            2e-3 at 128 to 5e-4 at 512, `warmup_share` 0.06, `beta2` 0.98, wider initial weights, and no dropout.

    Raises:
        InputError: If a setting is unknown, the shards do not suit the model, the model to start or learn from is
            missing or has another vocabulary, or torch is missing.
        TrainingFailed: If training fails for another reason. The message has the end of the trainer's log.
    """
    if not isinstance(shards, Shards):
        raise InputError(
            f"shards is of the type {type(shards).__name__}: give what cloze.build_shards or cloze.open_shards returns."
        )
    if not isinstance(model, str | Mapping):
        raise InputError(
            f"model is of the type {type(model).__name__}: give a family and a size, as in 'bert-tiny', or the table "
            "[model] of a recipe."
        )
    workspace, manifest = shards._workspace.with_progress(progress), shards._set.manifest
    if problem := explain_no_examples(manifest.name, manifest):
        raise InputError(problem)
    with ExitStack() as held, translate_errors(workspace.folder):
        given = {**(build_family_table(model) if isinstance(model, str) else model)}
        objective = given.get("objective")
        teacher = _open_start(objective.get("teacher"), held) if isinstance(objective, Mapping) else None
        start = _open_start(given.pop("start", None), held)
        if teacher is not None and isinstance(objective, Mapping):
            given["objective"] = {**objective, "teacher": teacher.folder}
        if start is None:
            asked = bind_settings(ModelSettings, to_toml_value(given), "model")
            table = propose_model_settings(asked) | to_toml_value(given)
            settings = bind_settings(ModelSettings, table, "model")
            if teacher is None and settings.objective_settings.kind == DistillationObjective.kind:
                raise InputError(
                    "model.objective has no teacher, from which distillation learns: give a model or its address."
                )
        else:
            start = adapt_start(start, shards.vocabulary._words, "The vocabulary of the shards")
            settings = read_settings(start, to_toml_value(given))
        phases = [to_toml_value({"steps": steps, "batch": batch, **(phase or {})})]
        keys = {**to_toml_value(training), "phase": phases}
        proposed = {} if start else propose_training_settings(settings, keys)
        trained_by = bind_settings(TrainingSettings, proposed | keys, "training")
        place, vocabulary = workspace.place, shards._vocabulary_artifact

        def work() -> Manifest:
            plan = partial(plan_model, place, name or manifest.name, [manifest], vocabulary)
            [trained] = workspace.perform([plan(settings, trained_by, start=start, teacher=teacher)])
            return trained

        trained = workspace.repair_and_retry(work)
    return Model(place.to_address(trained.folder), read_events(place, trained), workspace)


def _open_start(model: Any, held: ExitStack) -> StartModel | None:
    """Return the model to start or to learn from, in a local folder that exists until `held` is closed.

    Args:
        model: A `Model` or its address. If this is None or "", there is no such model, and None is returned.
        held: When it is closed, the local folder of a model from an object store is removed.

    Raises:
        InputError: If there is no such model.
    """
    return read_start(held.enter_context(open_model_folder(to_model(model).address))) if model else None


def build_family_table(name: str) -> dict[str, str]:
    """Parse a model name such as "bert-tiny" into a recipe's `[model]` table.

    Raises:
        InputError: If the name does not consist of a family and a size.

    >>> build_family_table("bert-tiny")
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
    control: bool = False,
    accept: Sequence[str] = (),
    **settings: Any,
) -> Model:
    """Fine-tune a model on labeled examples. The examples are validated first, as `cloze check` does.

    Args:
        model: A model, or its address: a folder, an artifact, a store, or a release (STORE@NAME).
        task: The task: "classes", "number", "tags", "span", "choice", "similarity", "retrieval" or "next" (see `cloze
            finetune --help`), or that of a plugin.
        train: Rows to learn from, or the path of a file: dictionaries with `text` (and `second`) and `label`, or other
            roles of the task.
        evaluate: Rows, or the path of a file, on which each epoch is evaluated.
        output: An empty or new folder for the result. By default a temporary one. If you repeat a call that was
            interrupted, it resumes there.
        columns: Maps each role to the name of its column, if they differ: `{"text": "sentence"}`.
        reading: How to read the rows: `format`, `header` (False if there are no column names), `max_unusable` (default:
            0.01 of the rows).
        progress: Whether to show progress bars.
        control: If True, the same model with random initial weights is fine-tuned in the same way, and `comparison` of
            the result tells whether pre-training was worth it. Its folder is next to `output`, with "-control" at the
            end of its name.
        accept: Names of findings of `cloze check` that are accepted.
        settings: Settings of the task and of fine-tuning: `epochs`, `learning_rate`, `batch`, `seed`, `restarts`, ...

    Returns:
        The model. Its `history` has a dictionary for each evaluation.

    Raises:
        InputError: If a setting is unknown or the rows cannot be used.
        TrainingFailed: If training fails for another reason.
    """
    workspace = Workspace(progress=progress)
    output = Path(output or mkdtemp(dir=workspace.folder) + "/model")
    with translate_errors(workspace.folder):
        files = TaskFiles(
            training=locate_rows(train, "train", workspace, columns, {**TRAINING_ROWS, **(reading or {})})[1],
            evaluation=locate_rows(evaluate, "evaluate", workspace, columns, {**TRAINING_ROWS, **(reading or {})})[1],
        )
        asked = FinetuneRequest(task, to_model(model).address, files, output, settings, accept)
        history = collect_history(finetune_events(asked), task, workspace)
        comparison = None
        if control:
            with open_model_folder(asked.model) as folder:
                job = replace(build_job(asked), model=str(folder.resolve()))
                comparison = compare_with_control(job, workspace.tell)
    return Model(output, history, workspace, comparison)


def collect_history(events: Iterator[Event], task: str, workspace: Workspace) -> list[Event]:
    """Consume the events of a fine-tuning run and show its progress. Return its step and evaluation events, in order.

    Args:
        events: Events as written to metrics.jsonl: dictionaries with `event`, `step` and other keys.
        task: Name of the task, which labels the progress bar.
        workspace: The workspace, which shows the bar and the warnings.
    """
    history: list[Event] = []
    start: Event = {"steps": 0}
    for start in events:
        if start["event"] != "warning":
            break
        workspace.tell(f"warning: {start['message']}")
    with workspace.bars.show_bar(f"{task} steps", max(1, start["steps"])) as advance:
        for event in events:
            if event["event"] == "warning":
                workspace.tell(f"warning: {event['message']}")
            if "step" in event:
                advance(event["step"])
            if event["event"] in ("step", "evaluation"):
                history.append(event)
    return history


def predict(model: Model | str | Path, rows: Any, **asked: Any) -> list[dict[str, Any]]:
    """Predict an answer for each row with a fine-tuned model. Same as `load_model(model).predict(rows, **asked)`.

    Args:
        model: A model, or its address.
        rows: Texts, dictionaries as in fine-tuning, a table or a file.
        asked: `columns`, `reading` and `progress`, as for `Model.predict`.

    Returns:
        One dictionary per row, with `line` (counted from 1) and the keys of the task, such as `label`.

    Raises:
        InputError: If the rows do not fit the model's task, or the model is not fine-tuned.
    """
    return to_model(model).predict(rows, **asked)


def embed(model: Model | str | Path, texts: Any, **asked: Any) -> npt.NDArray[np.float32]:
    """Compute a vector for each text: float32 [N, H]. Same as `load_model(model).encode(texts, **asked)`.

    Args:
        model: A model, or its address.
        texts: Texts, dictionaries with `text`, a table or a file.
        asked: `columns`, `reading`, `progress` and settings such as `pooling`, as for `Model.encode`.

    Raises:
        InputError: If there is no model, a setting is unknown, or an input is not a text.
    """
    return to_model(model).encode(texts, **asked)


def fill(model: Model | str | Path, text: str, *, top: int = 5) -> list[list[dict[str, Any]]]:
    """Predict the most probable tokens for each [MASK] in a text. Same as `load_model(model).fill(text, top=top)`.

    Args:
        model: A model, or its address.
        text: A text with one or more [MASK].
        top: Number of tokens to return for each mask.

    Returns:
        For each mask a list of dictionaries with `token`, `text`, `id` and `probability`, most probable first.

    Raises:
        InputError: If there is no mask, the text is too long, or the model does not predict words.
    """
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
    """Check labeled rows for problems such as leakage and contradictory labels. `finetune` does the same before it
    starts.

    Args:
        task: The task, as for `finetune`.
        train: Rows to learn from, as for `finetune`.
        evaluate: Additional rows, on which the model will be evaluated.
        model: A model. Its tokenizer is used to count tokens. If None, lengths in tokens are not checked.
        columns: Maps each role, such as "text", to the name of its column, if they differ.
        reading: How to read the rows, as for `finetune`.
        accept: Names of findings that are accepted.
        settings: Settings of the task and of fine-tuning: `labels`, `max_length`, ...

    Returns:
        The report, in the format of `cloze check --json`: `looks` (a sentence about the rows), `rows` (their number, by
        argument) and `findings`, a list of dictionaries with `name`, `severity` ("stops" if `finetune` would refuse the
        rows, otherwise "doubtful"), `where` and `what`.

    Raises:
        InputError: If the task or a setting is unknown, the rows cannot be read, or too many rows are unusable. Other
            problems are reported as findings.
    """
    workspace = Workspace(progress=False)
    with translate_errors(workspace.folder):
        named = [("train", train), *((f"evaluate{number or ''}", rows) for number, rows in enumerate(evaluate))]
        asked = {**TRAINING_ROWS, **(reading or {})}
        files = [locate_rows(rows, name, workspace, columns, asked)[1] for name, rows in named]
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
    """Fine-tune a model several times on each task of a suite, and compute a table of scores.

    Args:
        model: A model, or its address.
        suite: Path of a suite file, or the name of a built-in suite: "glue" or "superglue".
        data: Folder that contains the task files (default: the folder named in the suite).
        output: Folder for runs and tables. Runs already finished there are skipped.
        compare: Another model to compare with, by a paired test on the same tasks.
        control: If True, also compare with the same model with random initial weights.
        accept: Names of findings of `cloze check` that are accepted.
        progress: Whether to show progress bars.

    Returns:
        The content of the file evaluation.json: a dictionary with the keys `suite`, `model`, `seeds`, `rows`, `average`
        (the mean over tasks, or None), `interval_level` and `comparison` (None without another model). Each row has the
        `scores` of a `metric` on a `split` of a `task`, one per seed, and their `median`, `lowest` and `highest`.

    Raises:
        InputError: If the suite or the model cannot be used.
        TrainingFailed: If training fails for another reason.
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
    """Return a model for an address, without checking that it exists. A `Model` is returned unchanged.

    Raises:
        InputError: If `model` is neither an address nor a `Model`.
    """
    if isinstance(model, Model):
        return model
    if not isinstance(model, str | Path):
        raise InputError(
            f"model is of the type {type(model).__name__}: give what cloze.train, cloze.finetune or cloze.load_model "
            "returns, or the address of a model."
        )
    return Model(model)


def locate_rows(
    rows: Any,
    name: str,
    workspace: Workspace,
    columns: Mapping[str, str] | None,
    reading: Mapping[str, Any] | None = None,
) -> tuple[InputLocation, FileSettings]:
    """Locate the caller's rows, and build the settings for reading them. Rows and tables are written to a file.

    Args:
        rows: The rows, a table or a file.
        name: Name of the argument in error messages.
        workspace: The workspace in which rows may be written to a file.
        columns: Maps each role, such as "text", to the name of its column, if they differ.
        reading: Additional settings of the file, such as `format`. Unless it sets `max_unusable`, a file is accepted
            even if none of its rows can be used.

    Returns:
        The location of the rows, and the settings with its path.

    Raises:
        InputError: If the rows are not of a supported type, or a setting is unknown.
    """
    given = locate_input(rows, name, workspace.folder)
    own = (
        {"text": "text"} if given.has_only_texts or given.is_documents else {}
    )  # whatever it was called where the model learnt
    settings = {"max_unusable": 1.0, **(reading or {}), "columns": {**own, **(columns or {})}}
    return given, bind_settings(FileSettings, {**settings, "path": str(Path(given.path).resolve())}, "reading")


def with_columns(dataset: Any, columns: Mapping[str, pa.Array]) -> Any:
    """Return a `datasets.Dataset` with additional columns, one value per row. The given Dataset is not changed.

    Args:
        dataset: The Dataset.
        columns: The new columns, by name. If a name exists, the new column is named `predicted_...`.
    """
    for name, column in columns.items():
        while name in dataset.column_names:
            name = f"predicted_{name}"
        dataset = dataset.add_column(name, column)
    return dataset
