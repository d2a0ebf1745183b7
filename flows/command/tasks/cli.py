"""The commands of tasks, from `cloze finetune` to `cloze search`: each reads its arguments and calls one module.

Each imports what it needs when it runs.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from flows.command.terminal.output import console

if TYPE_CHECKING:
    from trainer.tasks.formats.records import FileSettings

tasks_app = App(name="tasks")

Model = Annotated[
    str, Parameter(help="A model's folder, an artifact's folder in a store, a release (STORE@NAME), or a store.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileAsked:
    """How a file of records is read."""

    columns: Annotated[
        list[str] | None,
        Parameter(
            name="--column", help="role=column, by name, number from 1, or path in JSON: text=sentence", negative=()
        ),
    ] = None
    format: Annotated[str, Parameter(help="The files' format, where their endings do not show it.")] = ""
    header: Annotated[bool, Parameter(help="Whether the first line of a table names the columns.")] = True
    max_unusable: Annotated[float, Parameter(help="Largest share of records that may be unusable.")] = 0.01

    def of(self, path: Path | None) -> "FileSettings":
        """Return the settings of a file, or of one that is named later. Raises InputError."""
        from flows.command.recipe_argument import read_override
        from trainer.tasks.formats.records import FileSettings

        return FileSettings(
            path="" if path is None else str(path.resolve()),
            format=self.format,
            header=self.header,
            columns=dict(read_override(text, "--column") for text in self.columns or []),
            max_unusable=self.max_unusable,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TextsAsked(FileAsked):
    """The same for a collection."""

    format: Annotated[
        str, Parameter(help="Its format, if its ending does not show it; documents or queries of TREC, MS MARCO, BEIR.")
    ] = ""


FILE_ASKED, TEXTS_ASKED = FileAsked(), TextsAsked()


def _tell(line: str) -> None:
    console.print(line, markup=False)


@tasks_app.command
def finetune(
    task: Annotated[
        str, Parameter(help="What to learn: classes, number, ...; or a published set: glue/sst2, squad/2.0, ...")
    ],
    model: Model,
    *,
    output: Annotated[Path, Parameter(help="Folder for the result; it must be empty or not exist.")],
    train: Annotated[Path | None, Parameter(help="Labelled examples to learn from.")] = None,
    evaluate: Annotated[Path | None, Parameter(help="Labelled examples to judge by after every epoch.")] = None,
    data: Annotated[Path | None, Parameter(help="For a published set its folder, in place of the two files.")] = None,
    reading: FileAsked = FILE_ASKED,
    overrides: Annotated[
        list[str] | None,
        Parameter(name="--set", help="key=value, of the task or the training: epochs, restarts, ...", negative=()),
    ] = None,
) -> int:
    """Fine-tune a model on a task; run the same command again to resume it."""
    from flows.command.recipe_argument import read_override
    from flows.command.tasks.finetune import finetune_model, published_task, task_files

    pairs, file = dict(map(read_override, overrides or [])), reading.of(None)
    if data is not None or train is None or evaluate is None or "/" in task:  # a published set
        kind, files, settings = published_task(task, data, train, evaluate, file=file)
        return finetune_model(kind, model, files, output, {**settings, **pairs}, _tell)
    return finetune_model(task, model, task_files(file, train, evaluate), output, pairs, _tell)


@tasks_app.command
def predict(
    model: Annotated[
        str, Parameter(help="The folder that `cloze finetune` or `cloze onnx` wrote, or one of Hugging Face's form.")
    ],
    file: Annotated[Path, Parameter(help="Records to predict.")],
    *,
    output: Annotated[Path, Parameter(help="File for the answers: a line of JSON for each record.")],
    reading: FileAsked = FILE_ASKED,
    labelled: Annotated[bool, Parameter(help="The records have labels: report scores as well.", negative=())] = False,
    official: Annotated[
        Path | None, Parameter(help="File for answers to questions in the form that SQuAD's own script reads.")
    ] = None,
    int8: Annotated[bool, Parameter(help="Use the 8-bit weights of an ONNX folder.", negative=())] = False,
) -> int:
    """Write a fine-tuned model's prediction for every record of a file."""
    from flows.command.tasks.predict import predict_file

    predict_file(model, reading.of(file), output, labelled, _tell, official=official, int8=int8)
    return 0


@tasks_app.command
def evaluate(
    model: Model,
    suite: Annotated[str, Parameter(help="A suite's TOML file, or one that comes with Cloze: glue, superglue.")],
    *,
    data: Annotated[Path | None, Parameter(help="Folder of the tasks' files; default: the suite's own.")] = None,
    output: Annotated[Path, Parameter(help="Folder for runs and tables.")] = Path("evaluation"),
    compare: Annotated[str | None, Parameter(help="Another model, for a paired test on the same tasks.")] = None,
    card: Annotated[Path | None, Parameter(help="A new folder for the model's files, with a model card.")] = None,
    license: Annotated[str, Parameter(help="The model's licence as Hugging Face spells it, for its card.")] = "unknown",
    onnx: Annotated[
        bool, Parameter(help="Write each task's median run as ONNX too, and report its cost.", negative=())
    ] = False,
) -> int:
    """Fine-tune a model on the tasks of a suite, from every seed, and report one table; finished runs are kept."""
    from flows.command.tasks.evaluate import Asked, evaluate_model

    asked = Asked(
        model=model, suite=suite, data=data, output=output, compare=compare, card=card, license=license, onnx=onnx
    )
    evaluate_model(asked, _tell)
    return 0


@tasks_app.command
def onnx(
    model: Model,
    output: Annotated[Path, Parameter(help="The folder to write; it must be empty or not exist.")],
    *,
    int8: Annotated[bool, Parameter(help="Also write it with 8-bit integer weights.", negative=())] = False,
    evaluate: Annotated[Path | None, Parameter(help="Labelled examples to score and time each by.")] = None,
    reading: FileAsked = FILE_ASKED,
) -> int:
    """Write a model as an ONNX file, for machines without torch; report size, memory, time and scores."""
    from flows.command.tasks.onnx import write_onnx

    write_onnx(model, output, int8, reading.of(evaluate) if evaluate is not None else None, _tell)
    return 0


@tasks_app.command
def embed(
    model: Model,
    file: Annotated[Path, Parameter(help="Records with a text and, if they have one, an id.")],
    *,
    output: Annotated[Path, Parameter(help="Parquet file for the vectors.")],
    reading: TextsAsked = TEXTS_ASKED,
    by: Annotated[str, Parameter(help="The unit that gets a vector: text, word or token.")] = "text",
    layers: Annotated[
        str, Parameter(help="last, or numbers: 1 is the first, -1 the last; as in -1,-2,-3,-4.")
    ] = "last",
    combine: Annotated[str, Parameter(help="Vectors of several layers: concat, sum or mean.")] = "concat",
    pooling: Annotated[str, Parameter(help="Of a text's tokens: mean, cls or max; default: as in training.")] = "",
    side: Annotated[str, Parameter(help="second: use the encoder of passages of a model that has two.")] = "first",
    precision: Annotated[str, Parameter(help="Of stored numbers: float32 or float16.")] = "float32",
    max_length: Annotated[int | None, Parameter(help="Tokens of a text before it is cut.")] = None,
) -> int:
    """Make vectors of texts, or of their words or tokens, with any model."""
    from flows.command.tasks.embed import embed_texts, layers_of
    from trainer.tasks.vectors.settings import EmbedSettings

    asked = EmbedSettings(
        by=by,
        layers=layers_of(layers),
        combine=combine,
        pooling=pooling,
        side=side,
        precision=precision,
        max_length=max_length,
    )
    embed_texts(model, reading.of(file), asked, output, _tell)
    return 0


@tasks_app.command
def search(
    corpus: Annotated[Path, Parameter(help="Documents, or vectors that `cloze embed` wrote.")],
    queries: Annotated[str, Parameter(help="A file of queries or of their vectors, or a query itself.")],
    *,
    model: Annotated[str, Parameter(help="Makes the vectors of texts.")] = "",
    vectors: Annotated[Path | None, Parameter(help="The documents' vectors, made before.")] = None,
    output: Annotated[Path | None, Parameter(help="File for the results, in TREC's form.")] = None,
    top: Annotated[int, Parameter(help="Documents per query.")] = 100,
    judgements: Annotated[
        Path | None, Parameter(help="Which documents are relevant (qrels): report the measures.")
    ] = None,
    rerank: Annotated[str, Parameter(help="A model fine-tuned on pairs, which scores the results again.")] = "",
    relevant: Annotated[str, Parameter(help="Its label of a document that answers; default: its last.")] = "",
    training: Annotated[Path | None, Parameter(help="File for rows of the task retrieval, from judgements.")] = None,
    pairs: Annotated[Path | None, Parameter(help="File for rows of a model that reranks, from judgements.")] = None,
    negatives: Annotated[int, Parameter(help="Irrelevant results for each relevant one in these rows.")] = 1,
    index_above: Annotated[int, Parameter(help="Vectors above which an index is used.")] = 1_000_000,
    corpus_format: Annotated[str, Parameter(help="documents, or a table's: tsv, csv, jsonl, parquet.")] = "documents",
    queries_format: Annotated[str, Parameter(help="queries, or a table's: tsv, csv, jsonl, parquet.")] = "queries",
) -> int:
    """Find the documents most like each query, by vectors; score, and make training rows, from judgements."""
    from flows.command.tasks.search import is_query
    from flows.command.tasks.search import search as search_for
    from trainer.tasks.formats.records import FileSettings
    from trainer.tasks.vectors.settings import SearchJob

    def named(path: Path | None) -> str:
        return "" if path is None else str(path.resolve())

    asked = Path(queries)
    job = SearchJob(
        corpus=FileSettings(path=named(corpus), format=corpus_format),
        queries=FileSettings(path=named(asked), format=queries_format),
        model=model,
        vectors=named(vectors),
        top=top,
        output=named(output),
        judgements=named(judgements),
        rerank=rerank,
        relevant=relevant,
        index_above=index_above,
        training=named(training),
        pairs=named(pairs),
        negatives=negatives,
    )
    search_for(job, queries if is_query(queries) else "", _tell)
    return 0


@tasks_app.command
def grid(
    grid: Annotated[str, Parameter(help="A grid's TOML file, or one that comes with Cloze: masking, sentence-loss.")],
    recipe: Annotated[str, Parameter(help="A recipe file with a [model]; each cell is a run of it.")],
    *,
    output: Annotated[Path, Parameter(help="Folder for the table, and for what is fine-tuned.")],
    suite: Annotated[str | None, Parameter(help="A suite that every model is evaluated on.")] = None,
    data: Annotated[Path | None, Parameter(help="Folder of the suite's files.")] = None,
    overrides: Annotated[
        list[str] | None, Parameter(name="--set", help="key=value of the recipe, in every cell.", negative=())
    ] = None,
    workers: Annotated[int | None, Parameter(help="Processes that build parts.")] = None,
) -> int:
    """Train a recipe in several forms as one flow, evaluate each, and report one table next to published figures."""
    from flows.command.tasks.grid import grid_of

    grid_of(grid, recipe, overrides or [], suite, data, output, Path(os.environ["CLOZE_HOME"]), workers, _tell)
    return 0


@tasks_app.command
def generate(
    model: Model,
    texts: Annotated[list[str], Parameter(help="How texts begin.", negative=())],
    /,
    *,
    tokens: Annotated[int, Parameter(help="Most tokens to add.")] = 40,
    temperature: Annotated[float, Parameter(help="The lower, the more probable; 0: always the most probable.")] = 1.0,
    top_k: Annotated[int, Parameter(help="Draw from so many tokens; 0: from all.")] = 0,
    top_p: Annotated[float, Parameter(help="Draw from the fewest tokens that have this share together.")] = 1.0,
    repetition_penalty: Annotated[float, Parameter(help="Above 1, tokens that occur already are less probable.")] = 1.0,
    no_repeat: Annotated[int, Parameter(help="No sequence of so many tokens occurs twice; 0: no limit.")] = 0,
    stop: Annotated[str, Parameter(help="A token after which nothing is added, such as a full stop.")] = "",
    seed: Annotated[int, Parameter(help="The seed of the draws.")] = 42,
    as_json: Annotated[bool, Parameter(name="--json", help="Print JSON for scripts.", negative=())] = False,
) -> int:
    """Continue texts, with a model that was fine-tuned for the next word (`cloze finetune next`)."""
    from flows.command.trainer_process import generate as generate_text

    drawn = {"tokens": tokens, "temperature": temperature, "top-k": top_k, "top-p": top_p, "seed": seed}
    settings = {**drawn, "repetition-penalty": repetition_penalty, "no-repeat": no_repeat, "stop": stop}
    generate_text(model, texts, settings, as_json, print)
    return 0


@tasks_app.command
def fill(
    model: Model,
    text: Annotated[str, Parameter(help="A text with [MASK] in place of each word to guess.")],
    *,
    top: Annotated[int, Parameter(help="Words to show for each mask.")] = 5,
    as_json: Annotated[bool, Parameter(name="--json", help="Print JSON for scripts.", negative=())] = False,
) -> int:
    """Show the most probable words for every [MASK] of a text."""
    from flows.command.trainer_process import fill as fill_text

    fill_text(model, text, top, as_json, print)
    return 0


@tasks_app.command(name="import")
def import_checkpoint(
    source: Annotated[Path, Parameter(help="The folder: config.json, weights for torch, a tokenizer of any form.")],
    output: Annotated[Path, Parameter(help="The folder to write; it must be empty or not exist.")],
    *,
    family: Annotated[str, Parameter(help="The model's, where its files do not show it: bert, roberta, ...")] = "",
    lowercase: Annotated[
        bool | None, Parameter(help="Whether a bare vocab.txt is of an uncased model; default: as its tokens look.")
    ] = None,
) -> int:
    """Convert an older checkpoint (pytorch_model.bin, a bare vocab.txt) to the form that models begin with."""
    from flows.command.trainer_process import import_folder

    import_folder(source, output, family, lowercase, _tell)
    return 0
