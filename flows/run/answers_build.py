"""The stage `answers`: new documents, answered by the fine-tuned model.

    corpus, parts of newer generations ─► live documents ─► predict or embed, a process of its own ─► Parquet, by id

Answered are the documents that no released model has answered: those of the generations after `since`. Parts of the
corpus are answered together, so many that starting a process pays. With `predict` a row has the document's id, the
answer as text, and all of it as JSON; with `embed` its id and vector, as `cloze embed` writes them. A long document is
cut as those of the model's training were.

documents = answered + unusable, by reason. Memory: the texts of the documents that are answered together.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpora.build import read_delete_list
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.part_writer import PartWriter
from corpora.store.places.files import explain_write_errors, hold_lock
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, read_manifest
from corpora.views import PartView, list_views, read_view
from trainer.build import locate_work_folder
from trainer.job import JobInput
from trainer.launch import LOG_FILE, Stop, build_exit_error, run_trainer
from trainer.metrics import Event
from trainer.tasks.build import fetch_model_folder
from trainer.tasks.data import group_by_size
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.settings import FinetuneSettings
from trainer.tasks.vectors.job import EmbedJob
from trainer.tasks.vectors.settings import EmbedSettings

BUILD_VERSION = 1
PREDICT, EMBED = "predict", "embed"
READ_COLUMNS = ("id", "source", "text")
ANSWER_SCHEMA = pa.schema([("id", pa.string()), ("answer", pa.string()), ("row", pa.string())])
MAX_DOCUMENTS_TOGETHER = 20_000  # documents, from which parts of a corpus are no longer answered together
OTHER_FIELDS = ("line", "id")  # of a row of `predict`, besides the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersJob:
    """The documents that one process makes predictions for: those in some parts (stored files) of a corpus.

    Attributes:
        store: Address of the store.
        model: Folder and digest of the fine-tuned model.
        corpus: Folder and digest of the corpus.
        parts: The parts of the corpus to process.
        answer_kind: "predict" or "embed".
        sources: Names of the sources of the documents to process; if empty, all sources.
        work: Folder for temporary files.
    """

    store: str
    model: JobInput
    corpus: JobInput
    parts: tuple[PartView, ...]
    answer_kind: str
    sources: tuple[str, ...]
    work: str = ""


def plan_answers(
    place: Place, tasks: Manifest, corpus: Manifest, since: int, answer_kind: str, sources: Sequence[str] = ()
) -> Stage:
    """Plan the pipeline stage that makes predictions for new documents with a fine-tuned model. Reads no text.

    Args:
        place: The store.
        tasks: Manifest (stored description) of the fine-tuned model.
        corpus: Manifest of the corpus.
        since: Number of the last generation (raw files that one run added) with predictions for its documents; 0 if no
            documents have any.
        answer_kind: "predict" for the answers of the model's task, or "embed" for vectors.
        sources: Names of the sources of the documents to process; if empty, all sources.
    """
    chosen = tuple(sources)
    parts = [
        view
        for view in list_views(corpus)
        if int(view.part.labels["generation"]) > since
        and view.num_rows
        and (not chosen or view.part.labels.get("source", chosen[0]) in chosen)
    ]
    shared: dict[str, Json] = {"answers": answer_kind, "sources": [*chosen]}
    key = {"model": tasks.content, "corpus": corpus.content}
    job = AnswersJob(
        store=place.address,
        model=JobInput(folder=tasks.folder, content=tasks.content),
        corpus=JobInput(folder=corpus.folder, content=corpus.content),
        parts=(),
        answer_kind=answer_kind,
        sources=chosen,
    )
    stage = Stage(
        kind="answers",
        name=tasks.name,
        build_version=BUILD_VERSION,
        settings={**shared, "since": since},
        part_settings=shared,
        parents=(tasks.as_parent(), corpus.as_parent()),
        libraries={},
        parts=tuple(
            PartPlan(
                name=f"{number:05}",
                key={**key, "documents": [view.part.content for view in some]},
                job=replace(job, parts=tuple(some)),
            )
            for number, some in enumerate(group_by_size(parts, lambda view: view.num_rows, MAX_DOCUMENTS_TOGETHER))
        ),
        build=build_answers_part,
        facts={"generations": corpus.facts["generations"]},
    )
    work = str(locate_work_folder(place, stage))
    return replace(stage, parts=tuple(replace(part, job=replace(part.job, work=work)) for part in stage.parts))


def build_answers_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Make predictions for the documents in some parts of the corpus, and write them to a Parquet file.

    If all documents are deleted, no file is written.

    Args:
        writer: Writes the file into the store.
        plan: The part to build. Its `job` is an AnswersJob.

    Returns:
        The numbers of documents that were read, answered, and not usable (by reason).

    Raises:
        InputError: If the corpus has changed since planning, or the disk is full.
        TrainingFailed: If the prediction process fails.
    """
    job: AnswersJob = plan.job
    place, work = Place(job.store), Path(job.work) / plan.name
    with ExitStack() as stack:
        with explain_write_errors(job.work):
            work.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold_lock(work.with_suffix(".lock")))  # of several that are to answer this, one does
            work.mkdir(exist_ok=True)
            if not _write_documents(place, job, work / "documents.parquet"):
                return Ledger(accounts=(Account(unit="documents", total=0, outcomes={"answered": 0}),))
        answers = work / "answers.parquet"
        answers.unlink(missing_ok=True)
        counts = _answer(job, fetch_model_folder(place, job.model), work, answers)
        writer.write_file(f"{plan.name}.parquet", answers.read_bytes(), "answers")
        shutil.rmtree(work)
    [account] = counts["accounts"].values()
    outcomes = {"answered" if reason == "given" else reason.replace("dropped: ", "unusable: "): number
                for reason, number in account["outcomes"].items()}  # fmt: skip
    figures = {name.replace("_", " "): number for name, number in counts["figures"].items()}
    return Ledger(accounts=(Account(unit="documents", total=account["total"], outcomes=outcomes),), figures=figures)


def _write_documents(place: Place, job: AnswersJob, path: Path) -> int:
    """Write a job's documents, except deleted ones, to a Parquet file, and return the number of documents.

    Args:
        place: The store.
        job: The documents to write.
        path: Path of the file, with the columns `id` (hexadecimal string) and `text` (string).

    Raises:
        InputError: If the corpus has changed since planning.
    """
    corpus = read_manifest(place, job.corpus.folder)
    if corpus is None or corpus.content != job.corpus.content:
        raise InputError(
            f"{place.to_address(job.corpus.folder)} is not the corpus that was planned with: run the recipe again."
        )
    deleted = read_delete_list(place, corpus)
    schema, number = pa.schema([("id", pa.string()), ("text", pa.large_string())]), 0
    with pq.ParquetWriter(path, schema) as sink:
        batches = (read_view(place, view, READ_COLUMNS, deleted=deleted) for view in job.parts)
        for live in chain.from_iterable(batches):
            if job.sources:
                live = live.filter(pc.is_in(live.column("source"), value_set=pa.array(job.sources, pa.string())))
            ids = pa.array([id.hex() for id in live.column("id").to_pylist()], pa.string())
            sink.write_table(pa.table([ids, live.column("text").cast(pa.large_string())], schema=schema))
            number += live.num_rows
    return number


def _answer(job: AnswersJob, model: Path, work: Path, answers: Path) -> Any:
    """Make the predictions in a trainer process, and write them to the file `answers`.

    Args:
        job: The documents to process; `answer_kind` selects the trainer's command.
        model: Folder of the fine-tuned model.
        work: Folder with the documents, and for temporary files.
        answers: Path of the Parquet file to write.

    Returns:
        The trainer's document counts as parsed JSON: a dict with the keys "accounts" (dicts by name, with "total" and
        "outcomes", the number of documents by outcome) and "figures" (numbers by name).

    Raises:
        InputError, TrainingFailed: If the process fails. The type depends on the cause.
    """
    documents = str(work / "documents.parquet")
    file = FileSettings(path=documents, format="parquet", columns={"text": "text"}, max_unusable=1.0)
    asked, lines, log = work / "asked.json", work / "answers.jsonl", work / LOG_FILE
    embed = EmbedJob(model=str(model), file=file, output=str(answers), settings=EmbedSettings())
    asked.write_text(json.dumps(asdict(embed if job.answer_kind == EMBED else file)), encoding="utf-8")
    called, does = (asked, [EMBED]) if job.answer_kind == EMBED else (model, [PREDICT, str(asked), str(lines)])
    heard: list[Event] = []
    code = run_trainer(
        called, log, FinetuneSettings(processes=1).to_training_settings(1), heard.append, Stop(), does=does
    )
    if code:
        raise build_exit_error(log, 0, code)
    if job.answer_kind == PREDICT:
        pq.write_table(pa.Table.from_pylist([*_iter_rows(lines)], ANSWER_SCHEMA), answers, compression="zstd")
    return heard[-1]["ledger"]


def _iter_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows to store from a file of JSON lines that `predict` wrote. Unusable documents are omitted.

    A row has the keys `id` (of the document), `answer` (the answer as text) and `row` (the whole answer as JSON text).
    """
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if "unusable" in row:
                continue  # counted in the ledger
            answer = {name: value for name, value in row.items() if name not in OTHER_FIELDS}
            first = next(iter(answer.values()))
            text = first if isinstance(first, str) else json.dumps(first, ensure_ascii=False)
            yield {"id": row["id"], "answer": text, "row": json.dumps(answer, ensure_ascii=False)}
