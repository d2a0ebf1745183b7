"""The stage `answers`: documents that no released model has answered, and what the fine-tuned model makes of them.

    corpus, parts of newer generations ─► live documents ─► predict or embed, a process of its own ─► Parquet, by id

Parts of the corpus that came after generation `since` are answered together, so many that starting a process pays. Of
`predict` a row has the document's id, the answer as a text and all of it as JSON; of `embed` its id and vector, as
`cloze embed` writes them. A long document is cut where those of the model's training were.

documents = answered + unusable, by reason. Memory: the texts of those that are answered together.
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
from trainer.tasks.build import model_at
from trainer.tasks.data import group_by_size
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.settings import FinetuneSettings
from trainer.tasks.vectors.job import EmbedJob
from trainer.tasks.vectors.settings import EmbedSettings

BUILD_VERSION = 1
PREDICT, EMBED = "predict", "embed"
READ = ("id", "source", "text")
ANSWERED = pa.schema([("id", pa.string()), ("answer", pa.string()), ("row", pa.string())])
TOGETHER = 20_000  # documents, from which parts of a corpus are no longer answered together
ASIDE = ("line", "id")  # of a row of `predict`, besides the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersJob:
    """Documents of some parts of a corpus, to be answered.

    model:   the artifact of the fine-tuned model
    corpus:  the artifact that the parts are of
    sources: whose documents; none: all
    """

    store: str
    model: JobInput
    corpus: JobInput
    parts: tuple[PartView, ...]
    does: str
    sources: tuple[str, ...]
    work: str = ""


def plan_answers(
    place: Place, tasks: Manifest, corpus: Manifest, since: int, does: str, sources: Sequence[str] = ()
) -> Stage:
    """The stage that answers documents of a corpus with the model of an artifact. Reads no text.

    since: the last generation whose documents are answered already; sources: whose documents, none: all
    """
    chosen = tuple(sources)
    parts = [
        view
        for view in list_views(corpus)
        if int(view.part.labels["generation"]) > since
        and view.num_rows
        and (not chosen or view.part.labels.get("source", chosen[0]) in chosen)
    ]
    shared: dict[str, Json] = {"answers": does, "sources": [*chosen]}
    key = {"model": tasks.content, "corpus": corpus.content}
    job = AnswersJob(
        store=place.address,
        model=JobInput(folder=tasks.folder, content=tasks.content),
        corpus=JobInput(folder=corpus.folder, content=corpus.content),
        parts=(),
        does=does,
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
            for number, some in enumerate(group_by_size(parts, lambda view: view.num_rows, TOGETHER))
        ),
        build=build_answers_part,
        facts={"generations": corpus.facts["generations"]},
    )
    work = str(locate_work_folder(place, stage))
    return replace(stage, parts=tuple(replace(part, job=replace(part.job, work=work)) for part in stage.parts))


def build_answers_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Answer the documents of a part of the corpus, and write them as Parquet; no file where none is live."""
    job: AnswersJob = plan.job
    place, work = Place(job.store), Path(job.work) / plan.name
    with ExitStack() as alone:
        with explain_write_errors(job.work):
            work.parent.mkdir(parents=True, exist_ok=True)
            alone.enter_context(hold_lock(work.with_suffix(".lock")))  # of several that are to answer this, one does
            work.mkdir(exist_ok=True)
            if not _write_documents(place, job, work / "documents.parquet"):
                return Ledger(accounts=(Account(unit="documents", total=0, outcomes={"answered": 0}),))
        answers = work / "answers.parquet"
        answers.unlink(missing_ok=True)
        counts = _answer(job, model_at(place, job.model), work, answers)
        writer.write_file(f"{plan.name}.parquet", answers.read_bytes(), "answers")
        shutil.rmtree(work)
    [account] = counts["accounts"].values()
    outcomes = {"answered" if reason == "given" else reason.replace("dropped: ", "unusable: "): number
                for reason, number in account["outcomes"].items()}  # fmt: skip
    figures = {name.replace("_", " "): number for name, number in counts["figures"].items()}
    return Ledger(accounts=(Account(unit="documents", total=account["total"], outcomes=outcomes),), figures=figures)


def _write_documents(place: Place, job: AnswersJob, path: Path) -> int:
    """Write the live documents of a part, with ids as text; return how many there are."""
    corpus = read_manifest(place, job.corpus.folder)
    if corpus is None or corpus.content != job.corpus.content:
        raise InputError(
            f"{place.to_address(job.corpus.folder)} is not the corpus that was planned with: run the recipe again."
        )
    deleted = read_delete_list(place, corpus)
    schema, number = pa.schema([("id", pa.string()), ("text", pa.large_string())]), 0
    with pq.ParquetWriter(path, schema) as sink:
        batches = (read_view(place, view, READ, deleted=deleted) for view in job.parts)
        for live in chain.from_iterable(batches):
            if job.sources:
                live = live.filter(pc.is_in(live.column("source"), value_set=pa.array(job.sources, pa.string())))
            ids = pa.array([id.hex() for id in live.column("id").to_pylist()], pa.string())
            sink.write_table(pa.table([ids, live.column("text").cast(pa.large_string())], schema=schema))
            number += live.num_rows
    return number


def _answer(job: AnswersJob, model: Path, work: Path, answers: Path) -> Any:
    """Have the trainer answer the documents; return its ledger. Raises InputError, or TrainingFailed."""
    documents = str(work / "documents.parquet")
    file = FileSettings(path=documents, format="parquet", columns={"text": "text"}, max_unusable=1.0)
    asked, lines, log = work / "asked.json", work / "answers.jsonl", work / LOG_FILE
    embed = EmbedJob(model=str(model), file=file, output=str(answers), settings=EmbedSettings())
    asked.write_text(json.dumps(asdict(embed if job.does == EMBED else file)), encoding="utf-8")
    called, does = (asked, [EMBED]) if job.does == EMBED else (model, [PREDICT, str(asked), str(lines)])
    heard: list[Event] = []
    code = run_trainer(called, log, FinetuneSettings(processes=1).training(1), heard.append, Stop(), does=does)
    if code:
        raise build_exit_error(log, 0, code)
    if job.does == PREDICT:
        pq.write_table(pa.Table.from_pylist([*_rows(lines)], ANSWERED), answers, compression="zstd")
    return heard[-1]["ledger"]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the answers of `predict` as rows."""
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if "unusable" in row:
                continue  # counted in the ledger
            answer = {name: value for name, value in row.items() if name not in ASIDE}
            first = next(iter(answer.values()))
            text = first if isinstance(first, str) else json.dumps(first, ensure_ascii=False)
            yield {"id": row["id"], "answer": text, "row": json.dumps(answer, ensure_ascii=False)}
