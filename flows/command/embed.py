"""`cloze embed`: computes vectors for the texts of a file, and finds those most similar to a query."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, Model
from flows.command.record_files import DEFAULT_FILE_OPTIONS, FileOptions, hold_piped_file, is_pipe, to_absolute
from flows.command.terminal import choose_printer, print_json
from flows.command.trainer_process import iter_trainer_events, open_job_file, open_model_folder
from flows.run.record.counts_text import format_count
from flows.run.record.task_scores import describe_ledger
from flows.signals import open_scratch_folder
from trainer.metrics import Event
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.job import EmbedJob
from trainer.tasks.vectors.settings import EmbedSettings, SearchSettings
from trainer.tasks.vectors.vector_files import is_vector_file

if TYPE_CHECKING:
    from trainer.tasks.formats.records import FileSettings

Vectors = Annotated[EmbedSettings, Parameter(name="*", negative=())]
Search = Annotated[SearchSettings, Parameter(name="*")]

MAX_CHARACTERS = 160  # characters of a text that are shown
NO_SEARCH = SearchSettings()


def embed(
    model: Model,
    file: Annotated[
        Path, Parameter(help="Records with a text and, if any, an id; - reads the standard input. Or their vectors.")
    ],
    *,
    output: Annotated[
        Path | None, Parameter(help="Parquet file for the vectors; with a query it may be left out.")
    ] = None,
    reading: FileOptions = DEFAULT_FILE_OPTIONS,
    asked: Vectors | None = None,
    search: Search | None = None,
    as_json: AsJson = False,
) -> None:
    """Compute vectors of texts, words or tokens, and search them.

    With relevance judgments, also score the results and make training rows.
    """
    tell, given = choose_printer(as_json or output is None), search or SearchSettings()
    facts = embed_file(
        model, reading.to_settings(file), asked or EmbedSettings(), output, tell, given, choose_printer(as_json)
    )
    if as_json:
        print_json(facts)


def embed_file(
    model: str,
    file: FileSettings,
    settings: EmbedSettings,
    output: Path | None,
    tell: Callable[[str], None],
    search: SearchSettings = NO_SEARCH,
    show: Callable[[str], None] | None = None,
) -> Event:
    """Compute vectors for the texts, words or tokens of a file, and search them if a query is given.

    Args:
        model: A model's folder, its folder in a store, or a release.
        file: The records with texts, or a file of vectors.
        settings: Whether to embed texts, words or tokens, and how.
        output: The Parquet file to write. None if `file` contains vectors, or only search results are wanted.
        tell: Callback that prints a line. It is called with progress messages.
        search: The query, and what to do with its results. By default, nothing is searched.
        show: Called with each line of the results. If None, `tell` is called instead.

    Returns:
        The fields of the trainer's last event, by name. After a search, these include "results" and "scores", as in
        `iter_result_lines`; otherwise "rows" and "width" (the size of the matrix of vectors) and "ledger" (the record
        counts).

    Raises:
        InputError: If an argument is not valid.
        TrainingFailed: If the trainer's process fails.
    """
    with ExitStack() as held:
        folder = held.enter_context(open_model_folder(model))
        job = EmbedJob(
            model=str(folder.resolve()),
            file=held.enter_context(hold_piped_file(file)),
            output="" if output is None else str(output.resolve()),
            settings=settings,
            search=_with_absolute_paths(search),
        )
        if is_query(search.query):
            asked = held.enter_context(open_scratch_folder()) / "query.jsonl"
            asked.write_text(json.dumps({"id": "1", "text": search.query}), encoding="utf-8")
            job = replace(job, queries=FileSettings(path=str(asked)))
        elif search.query:
            queries = replace(file, path=to_absolute(Path(search.query)))
            job = replace(job, queries=held.enter_context(hold_piped_file(queries)))
        if output is None and search.query and not is_vector_file(Path(job.file.path)):
            job = replace(job, output=str(held.enter_context(open_scratch_folder()) / "vectors.parquet"))
        path = held.enter_context(open_job_file(job))
        for event in iter_trainer_events("embed", path):
            for line in iter_event_lines(event):
                tell(line)
            if output is not None and "rows" in event and event["event"] == "done":
                tell(
                    f"{output.resolve()}: {format_count(event['rows'], 'vector')} of "
                    f"{format_count(event['width'], 'number')}"
                )
            for line in iter_result_lines(event, job.search):
                (show or tell)(line)
    return {name: value for name, value in event.items() if name != "event"}


def _with_absolute_paths(search: SearchSettings) -> SearchSettings:
    """Return a copy of search settings with absolute paths, so that a process in another folder can use them."""

    def whole(path: str) -> str:
        return path and str(Path(path).resolve())

    return replace(
        search, judgements=whole(search.judgements), training=whole(search.training), pairs=whole(search.pairs)
    )


def is_query(query: str) -> bool:
    """Return True if a string is a query rather than the name of a file of queries. Returns False for "".

    Raises:
        InputError: If the string looks like a file name, but there is no such file.

    >>> is_query("wing flutter"), is_query("flutter"), is_query("")
    (True, True, False)
    """
    try:
        if not query or Path(query).is_file() or is_pipe(Path(query)):
            return False
    except OSError:  # too long for a file's name
        return True
    if len(query.split()) < 2 and (Path(query).suffix or "/" in query):
        raise InputError(f"There is no file {query}: give a file of queries, or a query of some words.")
    return True


def iter_event_lines(event: Event) -> Iterator[str]:
    """Yield lines that describe a trainer event to the user. Yields nothing for events that are not shown.

    Args:
        event: A dict with the key "event" (its kind). A "step" event has "step" (the number of texts read) and "rows"
            (the number of vectors written). Any other event with "rows" also has "ledger" (record counts).
    """
    if event["event"] == "step":
        yield f"{format_count(event['step'], 'text')} read, {format_count(event['rows'], 'vector')} written"
    elif "rows" in event:
        yield f"read: {describe_ledger(event['ledger'])}"


def iter_result_lines(event: Event, search: SearchSettings) -> Iterator[str]:
    """Yield lines that describe search results to the user: counts, scores, then the best texts for each query.

    Yields nothing for an event without results. The texts are omitted if the search has relevance judgments.

    Args:
        event: The trainer's event: the counts "documents", "queries", "unjudged" and "missing", the "scores" by metric,
            and the "results", a list with a dict for each query.
        search: The settings of the search.
    """
    if "results" not in event:
        return
    texts = format_count(event["documents"], "text")
    yield f"{format_count(event['queries'], 'query', 'queries')} compared with {texts}"
    if event["unjudged"]:
        yield f"{format_count(event['unjudged'], 'query', 'queries')} without judgments, which are not scored"
    if event["missing"]:
        yield f"{format_count(event['missing'], 'relevant text')} not among those of the file, and never found"
    for name, value in event["scores"].items():
        yield f"{name} {value:.4f}"
    for result in () if search.judgements else event["results"]:
        yield f"{result['query']}: {result['text']}"
        for rank, document in enumerate(result["documents"], 1):
            yield f"  {rank}. {document['id']}  {document['score']:.4f}  {document['text'][:MAX_CHARACTERS]}"
    for name in ("training", "pairs"):
        if path := getattr(search, name):
            yield f"{name}: {path}"
