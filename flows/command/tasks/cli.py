"""The commands of tasks, from `cloze finetune` to `cloze fill`: each reads its arguments and calls one module.

Each imports what it needs when it runs.
"""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.command.arguments import AsJson, Count, Position, is_standard_output
from flows.command.tasks import options
from flows.command.terminal.output import print_json, say, teller

tasks_app = App(name="tasks")


@tasks_app.command
def finetune(
    task: Annotated[
        str, Parameter(help="What to learn: classes, number, ...; or a published set: glue/sst2, squad/2.0, ...")
    ],
    model: options.Model,
    *,
    output: Annotated[Path, Parameter(help="Folder for the result; it must be empty or not exist.")],
    train: Annotated[Path | None, Parameter(help="Labeled examples to learn from; - reads the standard input.")] = None,
    evaluate: Annotated[
        Path | None, Parameter(help="Labeled examples to judge by after every epoch; default: a tenth of --train.")
    ] = None,
    folds: Annotated[
        Position, Parameter(help="Fine-tune once for each of so many parts of --train, judged by it.")
    ] = 0,
    group: Annotated[str, Parameter(help="A column whose values --train is divided by, instead of its texts.")] = "",
    data: Annotated[Path | None, Parameter(help="For a published set its folder, in place of the two files.")] = None,
    reading: options.FileAsked = options.FILE_ASKED,
    overrides: Annotated[
        list[str] | None,
        Parameter(name="--set", help="key=value, of the task or the training: epochs, restarts, ...", negative=()),
    ] = None,
    accept: options.Accept = (),
) -> None:
    """Fine-tune a model on a task.

    Run the same command again to resume it.
    """
    from flows.command.tasks.finetune import FinetuneAsked, finetune_folds, finetune_model, published_task, task_files
    from flows.command.tasks.piped import from_pipe
    from flows.recipes.tables import parse_override

    pairs, file = dict(map(parse_override, overrides or [])), reading.of(None)
    if data is not None or train is None or "/" in task:  # a published set
        kind, files, settings = published_task(task, data, train, evaluate, file=file)
        finetune_model(FinetuneAsked(kind, model, files, output, {**settings, **pairs}, accept), say)
        return
    files = task_files(file, train, evaluate, folds, group)
    if evaluate is None and not folds:
        say("--evaluate names no file: a tenth of the examples is held out to judge by")
    with from_pipe(files.training) as training:
        files = files._replace(training=training, evaluation=training if files.folds else files.evaluation)
        (finetune_folds if folds else finetune_model)(FinetuneAsked(task, model, files, output, pairs, accept), say)


@tasks_app.command
def check(
    files: Annotated[list[Path], Parameter(help="Labeled files: that to learn from first, then those to judge by.")],
    *,
    task: Annotated[str, Parameter(help="The kind of task.")],
    model: Annotated[str | None, Parameter(help="The model that would learn: its tokenizer counts tokens.")] = None,
    reading: options.FileAsked = options.FILE_ASKED,
    overrides: Annotated[
        list[str] | None,
        Parameter(name="--set", help="key=value, of the task or the training: labels, max_length, ...", negative=()),
    ] = None,
    accept: options.Accept = (),
    as_json: AsJson = False,
) -> int:
    """Look at labeled data before anything is learned from it.

    Exit code 1 if something would make a score meaningless.
    """
    from flows.command.tasks.check import check_data, show_report
    from flows.recipes.tables import parse_override, parse_setting

    given = {key: parse_setting(text) for key, text in map(parse_override, overrides or [])}
    report = check_data([reading.of(file) for file in files], task, given, model, accept)
    if as_json:
        print_json(report.to_json())
    else:
        show_report(report)
    return 1 if report.stopping_findings else 0


@tasks_app.command
def predict(
    model: Annotated[str, Parameter(help="The folder that `cloze finetune` wrote, or one of Hugging Face's form.")],
    file: Annotated[Path, Parameter(help="Records to predict; - reads the standard input.")],
    *,
    output: Annotated[
        Path | None, Parameter(help="File for the answers, a line of JSON for each record; default: standard output.")
    ] = None,
    reading: options.FileAsked = options.FILE_ASKED,
    keep: Annotated[
        list[str] | None,
        Parameter(help="A column of the file to write with each answer; may be repeated.", negative=()),
    ] = None,
    labelled: Annotated[
        bool, Parameter(help="The records have labels: write them and each row's score, report all.", negative=())
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a fine-tuned model's answer to each record of a file."""
    from corpora.errors import InputError
    from flows.command.tasks.predict import predict_file, print_predictions

    asked = reading.of(file, keep or ())
    if output is None or is_standard_output(output):
        if as_json:
            raise InputError("--json prints one document, and the answers are lines: name their file (--output FILE).")
        print_predictions(model, asked, labelled, teller(as_json=True))
        return
    facts = predict_file(model, asked, output, labelled, teller(as_json))
    if as_json:
        print_json(facts)
    else:
        say(f"Answers: {output}")


@tasks_app.command
def evaluate(asked: options.EvaluationAsked, *, as_json: AsJson = False) -> None:
    """Fine-tune a model on each task of a suite; report one table.

    Every task is learned from several seeds. Finished runs are kept, so the same command resumes.
    """
    from flows.command.tasks.evaluate import JSON, evaluate_model

    evaluate_model(asked, teller(as_json))
    if as_json:
        print_json(json.loads((asked.output / JSON).read_text(encoding="utf-8")))


@tasks_app.command
def embed(
    model: options.Model,
    file: Annotated[
        Path, Parameter(help="Records with a text and, if any, an id; - reads the standard input. Or their vectors.")
    ],
    *,
    output: Annotated[
        Path | None, Parameter(help="Parquet file for the vectors; with a query it may be left out.")
    ] = None,
    reading: options.FileAsked = options.FILE_ASKED,
    asked: options.Vectors | None = None,
    search: options.Search | None = None,
    as_json: AsJson = False,
) -> None:
    """Make vectors of texts, words or tokens; find what is like a query.

    With relevance judgments, also score the results and make training rows.
    """
    from flows.command.tasks.embed import embed_texts
    from trainer.tasks.vectors.settings import EmbedSettings, SearchSettings

    tell, given = teller(as_json or output is None), search or SearchSettings()
    facts = embed_texts(model, reading.of(file), asked or EmbedSettings(), output, tell, given, teller(as_json))
    if as_json:
        print_json(facts)


@tasks_app.command
def fill(
    model: options.Model,
    text: Annotated[str, Parameter(help="A text with [MASK] in place of each word to guess.")],
    *,
    top: Annotated[Count, Parameter(help="Words to show for each mask.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show the most probable words for each [MASK] of a text."""
    from flows.command.trainer_process import model_folder, relay

    with model_folder(model) as folder:
        relay(["fill", "--top", str(top), *(["--json"] if as_json else []), "--", str(folder), text], print)
