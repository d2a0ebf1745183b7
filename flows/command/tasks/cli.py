"""`cloze finetune`, `predict`, `evaluate`, `onnx` and `fill`: each reads its arguments and calls one module.

It imports what it needs when it runs.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.command.output import console

tasks_app = App(name="tasks")

Model = Annotated[
    str, Parameter(help="A model's folder, an artifact's folder in a store, a release (STORE@NAME), or a store.")
]
Columns = Annotated[
    list[str] | None,
    Parameter(name="--column", help="role=column, by name, number from 1, or path in JSON: text=sentence", negative=()),
]
Format = Annotated[str, Parameter(help="The files' format, where their endings do not tell.")]
Header = Annotated[bool, Parameter(help="Whether the first line of a table names the columns.")]
MaxUnusable = Annotated[float, Parameter(help="Largest share of records that may be unusable.")]


def _tell(line: str) -> None:
    console.print(line, markup=False)


@tasks_app.command
def finetune(
    task: Annotated[
        str, Parameter(help="What is to be learnt: classes, number, ...; or a published set: glue/sst2, squad/2.0, ...")
    ],
    model: Model,
    *,
    output: Annotated[Path, Parameter(help="Folder for what is learnt; it must not hold anything yet.")],
    train: Annotated[Path | None, Parameter(help="Labelled examples to learn from.")] = None,
    evaluate: Annotated[Path | None, Parameter(help="Labelled examples to judge by after every epoch.")] = None,
    data: Annotated[Path | None, Parameter(help="Of a published set its folder, in place of the two files.")] = None,
    columns: Columns = None,
    format: Format = "",
    header: Header = True,
    max_unusable: MaxUnusable = 0.01,
    overrides: Annotated[
        list[str] | None,
        Parameter(name="--set", help="key=value, of the task or the training: epochs, restarts, ...", negative=()),
    ] = None,
) -> int:
    """Fine-tune a model on a task; the same command again goes on where it was ended."""
    from flows.command.asked import read_override
    from flows.command.tasks.finetuning import finetune_model, published_task, task_files
    from trainer.tasks.formats.records import FileSettings

    pairs = dict(map(read_override, overrides or []))
    if data is not None or train is None or evaluate is None:
        kind, files, said = published_task(task, data, train, evaluate)
        return finetune_model(kind, model, files, output, {**said, **pairs}, _tell)
    roles = dict(read_override(text, "--column") for text in columns or [])
    file = FileSettings(path="", format=format, header=header, columns=roles, max_unusable=max_unusable)
    return finetune_model(task, model, task_files(file, train, evaluate), output, pairs, _tell)


@tasks_app.command
def predict(
    model: Annotated[str, Parameter(help="The folder that `cloze finetune` wrote, or one of Hugging Face's form.")],
    file: Annotated[Path, Parameter(help="Records to say something of.")],
    *,
    output: Annotated[Path, Parameter(help="File for the answers: a line of JSON for each record.")],
    columns: Columns = None,
    format: Format = "",
    header: Header = True,
    max_unusable: MaxUnusable = 0.01,
    labelled: Annotated[bool, Parameter(help="The records have labels: tell scores as well.", negative=())] = False,
    official: Annotated[
        Path | None, Parameter(help="File for answers to questions in the form that SQuAD's own script reads.")
    ] = None,
) -> int:
    """Say what a fine-tuned model makes of every record of a file."""
    from flows.command.asked import read_override
    from flows.command.tasks.predicting import predict_file
    from trainer.tasks.formats.records import FileSettings

    roles = dict(read_override(text, "--column") for text in columns or [])
    settings = FileSettings(
        path=str(file.resolve()), format=format, header=header, columns=roles, max_unusable=max_unusable
    )
    predict_file(model, settings, output, labelled, _tell, official=official)
    return 0


@tasks_app.command
def evaluate(
    model: Model,
    suite: Annotated[str, Parameter(help="A suite's TOML file, or one that comes with Cloze: glue, superglue.")],
    *,
    data: Annotated[Path | None, Parameter(help="Folder of the tasks' files; default: the suite's own.")] = None,
    output: Annotated[Path, Parameter(help="Folder for runs and tables.")] = Path("evaluation"),
    compare: Annotated[str | None, Parameter(help="Another model, for a paired test on the same tasks.")] = None,
) -> int:
    """Fine-tune a model on the tasks of a suite, from every seed, and tell one table; finished runs are kept."""
    from flows.command.tasks.evaluating import evaluate_model

    evaluate_model(model, suite, data, output, compare, _tell)
    return 0


@tasks_app.command
def onnx(
    model: Model,
    output: Annotated[Path, Parameter(help="The folder to write; it must not hold anything yet.")],
    *,
    int8: Annotated[bool, Parameter(help="Write it with whole numbers of eight bits too.", negative=())] = False,
    evaluate: Annotated[Path | None, Parameter(help="Labelled examples to score and time each by.")] = None,
    columns: Columns = None,
    format: Format = "",
    header: Header = True,
    max_unusable: MaxUnusable = 0.01,
) -> int:
    """Write a model as a file of ONNX, for machines without torch; tell size, memory, time and scores."""
    from flows.command.asked import read_override
    from flows.command.tasks.portable import write_onnx
    from trainer.tasks.formats.records import FileSettings

    roles = dict(read_override(text, "--column") for text in columns or [])
    path = str(evaluate.resolve()) if evaluate is not None else ""
    settings = FileSettings(path=path, format=format, header=header, columns=roles, max_unusable=max_unusable)
    write_onnx(model, output, int8, settings if path else None, _tell)
    return 0


@tasks_app.command
def fill(
    model: Model,
    text: Annotated[str, Parameter(help="A text with [MASK] where a word is to be guessed.")],
    *,
    top: Annotated[int, Parameter(help="Words to show for each mask.")] = 5,
    as_json: Annotated[bool, Parameter(name="--json", help="Print JSON for scripts.", negative=())] = False,
) -> int:
    """Show the most probable words for every [MASK] of a text."""
    from flows.command.models import fill as fill_text

    fill_text(model, text, top, as_json, print)
    return 0
