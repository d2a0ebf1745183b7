"""`cloze search`: queries against a collection, by the trainer's process; results as lines for people."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from corpora.errors import InputError
from flows.command.tasks.piped import from_pipe, is_piped
from flows.command.trainer_process import job_file, model_folder, trainer_events
from flows.run.record.counts_text import counted
from flows.signals import scratch_folder
from trainer.metrics import Event
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import SearchJob

SHOWN = 10  # documents per query, where no file is written
LONGEST = 160  # characters of a document that are shown


def search(job: SearchJob, query: str, tell: Callable[[str], None]) -> Event:
    """Search; print the scores, and the results where no file for them is named; return both.

    Raises InputError, TrainingFailed.

    query: a query itself, in place of a file of queries
    """
    with ExitStack() as held:
        scratch = held.enter_context(scratch_folder())
        model, rerank = (
            str(held.enter_context(model_folder(address)).resolve()) if address else ""
            for address in (job.model, job.rerank)
        )
        if query:
            asked = scratch / "query.tsv"
            asked.write_text(f"1\t{' '.join(query.split())}\n", encoding="utf-8")
            job = replace(job, queries=FileSettings(path=str(asked), format="queries"))
        job = replace(job, queries=held.enter_context(from_pipe(job.queries)))
        path = held.enter_context(job_file(replace(job, model=model, rerank=rerank)))
        for event in trainer_events("search", path):
            for line in event_lines(event, job):
                tell(line)
    return {name: value for name, value in event.items() if name != "event"}


def is_query(query: str) -> bool:
    """Return whether it is a query itself, and not a file of them. Raises InputError for a missing file.

    >>> is_query("wing flutter"), is_query("flutter")
    (True, True)
    """
    try:
        if Path(query).is_file() or is_piped(Path(query)):
            return False
    except OSError:  # too long for a file's name
        return True
    if len(query.split()) < 2 and (Path(query).suffix or "/" in query):
        raise InputError(f"There is no file {query}: give a file of queries, or a query of some words.")
    return True


def event_lines(event: Event, job: SearchJob) -> Iterator[str]:
    """Yield an event as lines."""
    if event["event"] == "step":
        yield f"{counted(event['step'], 'text')} embedded"
        return
    how = "by an index, which may miss some" if event["indexed"] else "compared with all"
    yield f"{counted(event['queries'], 'query', 'queries')} in {counted(event['documents'], 'document')}, {how}"
    if event["unjudged"]:
        yield f"{counted(event['unjudged'], 'query', 'queries')} without judgments, which are not scored"
    for name, value in event["scores"].items():
        before = f" (before reranking {event['before_reranking'][name]:.4f})" if event["before_reranking"] else ""
        yield f"{name} {value:.4f}{before}"
    for result in event["results"] or ():
        yield f"{result['query']}: {result['text']}"
        for rank, document in enumerate(result["documents"][:SHOWN], 1):
            yield f"  {rank}. {document['id']}  {document['score']:.4f}  {document['text'][:LONGEST]}"
    for name in ("output", "training", "pairs"):
        if getattr(job, name):
            yield f"{name}: {getattr(job, name)}"
