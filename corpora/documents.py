"""The documents stage: one source's raw files in, clean and filtered documents out.

    records ─ parse ─► prose ─ clean ─► text ─ language ─ rules ─► documents
                 └────────────┴────────────┴──────────┴─► dropped, each with step and reason

Each source and generation is parsed independently of all others, so changing a later setting parses nothing
again. records = documents + dropped, counted by three different hands: the source's tally, the rows written,
and the drops by reason. Memory: one batch of about 4 MB of text and one record at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from unicodedata import unidata_version

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.clean import CleanSettings, clean
from corpora.errors import InputError
from corpora.language import LanguageSettings, language_reasons
from corpora.rules import REASONS, RulesSettings, quality, reasons
from corpora.schema import DOCUMENTS, DROPPED, excerpt, keyed_id, record_id
from corpora.sources.source import RawFile, Record, Slice, Source, Tally, group_slices
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Parent, fingerprint
from corpora.store.settings import check_range, limit, settings_json
from corpora.store.stage import PartPlan, PartWriter, Stage, library_versions

BUILD_VERSION = 1
BATCH_BYTES = 4_000_000
BATCH_ROWS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsSettings:
    """How records become documents.

    part_bytes:         raw bytes a part reads; decides how the rows are cut, not what they are
    max_document_bytes: a longer document is dropped
    max_damaged_share:  a larger share of damaged records stops the run
    """

    clean: CleanSettings = field(default_factory=CleanSettings)
    language: LanguageSettings = field(default_factory=LanguageSettings)
    rules: RulesSettings = field(default_factory=RulesSettings)
    max_document_bytes: int = 5_000_000
    part_bytes: int = 4_000_000
    max_damaged_share: float = limit(0.01)

    def __post_init__(self) -> None:
        check_range("documents.part_bytes", self.part_bytes, 1, 1 << 40)
        check_range("documents.max_document_bytes", self.max_document_bytes, 1, 1 << 30)
        check_range("documents.max_damaged_share", self.max_damaged_share, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsJob:
    """What one part needs to be built."""

    source: Source
    settings: DocumentsSettings
    slices: tuple[Slice, ...]


def plan_documents(source: Source, files: Sequence[RawFile], settings: DocumentsSettings, cut: bool = True) -> Stage:
    """The stage that turns these raw files into documents. Reads no more than the files' indexes.

    With `cut=False` the files need not be there: the stage has its identity and no parts.
    """
    slices = [piece for file in files for piece in source.slices(file)] if cut else []
    groups = group_slices(slices, settings.part_bytes)
    determining = settings_json(settings)
    described = {"kind": source.kind, "version": source.version, "name": source.name, **source.settings()}
    part_settings = {key: value for key, value in determining.items() if key != "part_bytes"}
    return Stage(
        kind="documents",
        name=source.name,
        build_version=BUILD_VERSION,
        settings={"source": described, **determining},
        part_settings={"source": described, **part_settings},
        parents=(raw_parent(files),),
        libraries=library_versions("ftfy", "pycld2", *source.libraries) | {"unicode": unidata_version},
        parts=tuple(
            PartPlan(
                name=f"{number:05d}",
                key=[piece.to_json() for piece in group],
                job=DocumentsJob(source=source, settings=settings, slices=group),
            )
            for number, group in enumerate(groups)
        ),
        build=build_documents_part,
    )


def raw_parent(files: Sequence[RawFile]) -> Parent:
    """Raw files by content and name, as one parent."""
    digest = fingerprint(files=[[file.name, file.sha256] for file in files])
    return Parent(role="raw", name=f"{len(files)} files", fingerprint=digest)


def build_documents_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Read the slices of one part and write its documents and its dropped rows."""
    job: DocumentsJob = plan.job
    tally, drops, figures = Tally(), Counter[str](), Counter[str]()
    kept = 0
    with writer.table("documents", DOCUMENTS) as documents, writer.table("dropped", DROPPED) as dropped:
        records = (record for piece in job.slices for record in job.source.records(piece, tally))
        for batch in in_batches(records):
            judged = judge_records(batch, job.source.name, job.settings)
            documents.write(judged.documents)
            dropped.write(judged.dropped)
            kept += judged.documents.num_rows
            drops.update(judged.reasons)
            figures.update(judged.figures)
            figures["damaged records"] += sum(bool(record.drop and record.drop.damaged) for record in batch)
    outcomes = {"documents": kept, **{f"dropped: {reason}": count for reason, count in drops.items()}}
    account = Account(unit="records", total=tally.records, outcomes=outcomes)
    return Ledger(accounts=(account,), figures=figures)


def in_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in order, in lists of at most BATCH_ROWS rows and about BATCH_BYTES of text and raw bytes."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.text) + len(record.raw)
        if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A batch of records after all steps. `reasons` has "step: reason" of each dropped row."""

    documents: pa.RecordBatch
    dropped: pa.RecordBatch
    reasons: list[str]
    figures: dict[str, int]


@dataclass(frozen=True, slots=True)
class StepDrop:
    """Which step dropped a record, and why."""

    step: str
    reason: str
    detail: str = ""


def judge_records(records: list[Record], source: str, settings: DocumentsSettings) -> Judged:
    """Take a batch through clean, language and rules; each later step sees only what is left."""
    drops = [_parse_drop(record, settings) for record in records]
    texts = clean(_texts(record.text for record, drop in zip(records, drops, strict=True) if not drop), settings.clean)
    left = [index for index, drop in enumerate(drops) if drop is None]
    left, texts = _sift(
        left, texts, drops, [None if len(text.as_py()) else StepDrop("clean", "empty") for text in texts]
    )
    languages, found = language_reasons(texts, settings.language)
    codes = dict(zip(left, languages.to_pylist(), strict=True))
    foreign = [
        None if why is None else StepDrop("language", "other language", code)
        for why, code in zip(found, languages.to_pylist(), strict=True)
    ]
    left, texts = _sift(left, texts, drops, foreign)
    broken = [REASONS[code] or None for code in reasons(texts, settings.rules)]
    left, texts = _sift(left, texts, drops, [None if why is None else StepDrop("rules", why) for why in broken])
    rows = [records[index] for index in left]
    documents = _document_rows(rows, texts, [codes[index] for index in left], source)
    dropped = [(record, drop) for record, drop in zip(records, drops, strict=True) if drop]
    return Judged(
        documents=documents,
        dropped=_dropped_rows(dropped, source),
        reasons=[f"{drop.step}: {drop.reason}" for _, drop in dropped],
        figures={"text bytes": int(pc.sum(pc.binary_length(texts)).as_py() or 0)},
    )


def _parse_drop(record: Record, settings: DocumentsSettings) -> StepDrop | None:
    if record.drop is not None:
        return StepDrop("parse", record.drop.reason, record.drop.detail)
    if len(record.text) > settings.max_document_bytes or len(record.text.encode()) > settings.max_document_bytes:
        return StepDrop("parse", "too large", f"over {settings.max_document_bytes} bytes")
    return None


def _texts(texts: Iterable[str]) -> pa.Array:
    return pa.array(list(texts), pa.large_string())


def _sift(
    left: list[int], texts: pa.Array, drops: list[StepDrop | None], found: list[StepDrop | None]
) -> tuple[list[int], pa.Array]:
    """Note what a step found, and keep the rows in which it found nothing."""
    for index, drop in zip(left, found, strict=True):
        drops[index] = drop
    mask = np.array([drop is None for drop in found], bool)
    kept = [index for index, drop in zip(left, found, strict=True) if drop is None]
    return kept, texts if mask.all() else texts.filter(pa.array(mask))


def document_id(record: Record, source: str) -> bytes:
    """A record's identity: of its key where its source has one, else of its own bytes."""
    return keyed_id(source, record.key) if record.key is not None else record_id(source, record.raw)


def _document_rows(records: list[Record], texts: pa.Array, languages: list[str], source: str) -> pa.RecordBatch:
    columns = {
        **_common_columns(records, source),
        "text": texts,
        "url": [record.url for record in records],
        "date": [record.date for record in records],
        "language": languages,
        "license": [record.license for record in records],
        "group": [record.group for record in records],
        "meta": [record.meta for record in records],
        "quality": quality(texts),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in DOCUMENTS]
    return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENTS)


def _dropped_rows(dropped: list[tuple[Record, StepDrop]], source: str) -> pa.RecordBatch:
    nothing = [None] * len(dropped)
    columns = {
        **_common_columns([record for record, _ in dropped], source),
        "step": [drop.step for _, drop in dropped],
        "reason": [drop.reason for _, drop in dropped],
        "detail": [drop.detail or None for _, drop in dropped],
        "survivor": nothing,
        "similarity": nothing,
        "excerpt": [excerpt(record.text) for record, _ in dropped],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in DROPPED]
    return pa.RecordBatch.from_arrays(arrays, schema=DROPPED)


def _common_columns(records: list[Record], source: str) -> dict[str, list[object]]:
    return {
        "id": [document_id(record, source) for record in records],
        "keyed": [record.key is not None for record in records],
        "revision": [record.revision for record in records],
        "source": [source] * len(records),
        "locator": [
            {name: getattr(record.locator, name) for name in ("file", "sha256", "stream", "offset", "length")}
            for record in records
        ],
        "title": [record.title for record in records],
    }


def check_damage(manifest: Manifest, settings: DocumentsSettings) -> None:
    """Stop a run whose source is damaged beyond its bound: the rest is then not to be trusted either."""
    ledger = manifest.ledger
    total, damaged = ledger.account("records").total, ledger.figures.get("damaged records", 0)
    if damaged > settings.max_damaged_share * total:
        raise InputError(
            f"Source {manifest.name!r}: {damaged} of {total} records are damaged, more than documents."
            f"max_damaged_share = {settings.max_damaged_share} allows. Get the raw files again, or raise the bound; "
            f"`cloze inspect {manifest.folder}` shows the damaged records."
        )
