"""The documents stage: one source's raw files in, clean and filtered documents out.

    records ─ parse ─► prose ─ clean ─► text ─ language ─ rules ─► documents
                 └────────────┴────────────┴──────────┴─► dropped, each with step and reason

Each source and generation is parsed independently of all others, so changing a later setting parses nothing
again. records = documents + dropped, counted by three different hands: the source's tally, the rows written,
and the drops by reason. Memory: one batch of about 4 MB of text and one record at a time.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from unicodedata import unidata_version

import pyarrow as pa
import pyarrow.compute as pc

from corpora.clean import CleanSettings, clean
from corpora.errors import InputError
from corpora.language import LanguageSettings, language_reasons
from corpora.rules import REASONS, RulesSettings, quality, reasons
from corpora.schema import DOCUMENTS, DROPPED, excerpt, keyed_id, record_id
from corpora.sources.source import RawFile, Record, Slice, Source, Tally, group_slices
from corpora.steps import StepEntry, apply_step
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Json, Manifest, Parent, fingerprint
from corpora.store.pulse import reading
from corpora.store.settings import added, check_range, limit, settings_json
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
    max_rule_share:     a rule, or a step of one's own, that drops a larger share of a source's documents stops the
                        run; asked of sources with `rule_share_from` documents or more
    """

    clean: CleanSettings = field(default_factory=CleanSettings)
    language: LanguageSettings = field(default_factory=LanguageSettings)
    rules: RulesSettings = field(default_factory=RulesSettings)
    steps: tuple[StepEntry, ...] = added(neutral=())
    max_document_bytes: int = 5_000_000
    part_bytes: int = 4_000_000
    max_damaged_share: float = limit(0.01)
    max_rule_share: float = limit(0.2)
    rule_share_from: int = limit(100)

    def __post_init__(self) -> None:
        check_range("documents.part_bytes", self.part_bytes, 1, 1 << 40)
        check_range("documents.max_document_bytes", self.max_document_bytes, 1, 1 << 30)
        check_range("documents.max_damaged_share", self.max_damaged_share, 0.0, 1.0)
        check_range("documents.max_rule_share", self.max_rule_share, 0.0, 1.0)
        check_range("documents.rule_share_from", self.rule_share_from, 1, 1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsJob:
    """What one part needs to be built."""

    source: Source
    settings: DocumentsSettings
    slices: tuple[Slice, ...]
    quarantine: tuple[str, ...] = ()


def plan_documents(
    source: Source,
    files: Sequence[RawFile],
    settings: DocumentsSettings,
    cut: bool = True,
    quarantine: Collection[str] = (),
) -> Stage:
    """The stage that turns these raw files into documents. Reads no more than the files' indexes.

    With `cut=False` the files need not be there: the stage has its identity and no parts. quarantine: the places
    of records that are not to be read (`quarantine_place`)
    """
    digests = {file.sha256 for file in files}
    barred = sorted(place for place in quarantine if place.split(" ")[0] in digests)
    slices = [piece for file in files for piece in source.slices(file)] if cut else []
    groups = group_slices(slices, settings.part_bytes)
    determining = settings_json(settings)
    described = {"kind": source.kind, "version": source.version, "name": source.name, **source.settings()}
    part_settings = {key: value for key, value in determining.items() if key != "part_bytes"}
    return Stage(
        kind="documents",
        name=source.name,
        build_version=BUILD_VERSION,
        settings={"source": described, **determining, **({"quarantine": barred} if barred else {})},
        part_settings={"source": described, **part_settings},
        parents=(raw_parent(files),),
        libraries=library_versions("ftfy", "pycld2", *source.libraries) | {"unicode": unidata_version},
        parts=tuple(
            _plan_part(f"{number:05d}", DocumentsJob(source=source, settings=settings, slices=group), barred)
            for number, group in enumerate(groups)
        ),
        build=build_documents_part,
    )


def _plan_part(name: str, job: DocumentsJob, barred: Sequence[str]) -> PartPlan:
    """One part, with those records in quarantine that it would read."""
    here = tuple(place for place in barred if any(_begins_in(place, piece) for piece in job.slices))
    key: list[Json] = [piece.to_json() for piece in job.slices]
    return PartPlan(
        name=name, key=[*key, {"quarantine": list(here)}] if here else key, job=replace(job, quarantine=here)
    )


def _begins_in(place: str, piece: Slice) -> bool:
    """Whether the record at a quarantine place is read with this slice."""
    digest, stream, offset = place.split(" ")
    return digest == piece.file.sha256 and piece.start <= int(stream if int(stream) >= 0 else offset) < piece.stop


def raw_parent(files: Sequence[RawFile]) -> Parent:
    """Raw files by content and name, as one parent."""
    digest = fingerprint(files=[[file.name, file.sha256] for file in files])
    return Parent(role="raw", name=f"{len(files)} files", fingerprint=digest)


def build_documents_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Read the slices of one part and write its documents and its dropped rows."""
    job: DocumentsJob = plan.job
    tally, drops, figures = Tally(job.quarantine), Counter[str](), Counter[str]()
    kept = 0
    with writer.table("documents", DOCUMENTS) as documents, writer.table("dropped", DROPPED) as dropped:
        for batch in in_batches(_read(job, tally)):
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


def _read(job: DocumentsJob, tally: Tally) -> Iterator[Record]:
    """The records of a part; between two of them none is being read."""
    for piece in job.slices:
        for record in job.source.records(piece, tally):
            reading("")
            yield record
    reading("")


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


class Progress:
    """A batch of records on its way through the steps: which are left, and their texts as they are now."""

    def __init__(self, records: Sequence[Record], settings: DocumentsSettings) -> None:
        self.records = records
        self.drops = [_parse_drop(record, settings) for record in records]
        self.left = [index for index, drop in enumerate(self.drops) if drop is None]
        self.texts = pa.array([records[index].text for index in self.left], pa.large_string())
        self.figures = Counter[str]()

    @property
    def rows(self) -> list[Record]:
        """The records that are left."""
        return [self.records[index] for index in self.left]

    def edit(self, step: str, texts: pa.Array) -> None:
        """Take a step's texts; a record of which nothing is left is dropped."""
        self.texts = texts
        if pc.any(pc.equal(pc.binary_length(texts), 0)).as_py():
            self.sift([None if length else StepDrop(step, "empty") for length in pc.binary_length(texts).to_pylist()])

    def sift(self, found: Sequence[StepDrop | None]) -> None:
        """Note what a step found in each row, and keep those in which it found nothing."""
        for index, drop in zip(self.left, found, strict=True):
            self.drops[index] = drop
        stays = [drop is None for drop in found]
        if not all(stays):
            self.left = [index for index, kept in zip(self.left, stays, strict=True) if kept]
            self.texts = self.texts.filter(pa.array(stays, pa.bool_()))


def judge_records(
    records: list[Record],
    source: str,
    settings: DocumentsSettings,
    watch: Callable[[str, Progress], None] = lambda step, progress: None,
) -> Judged:
    """Take a batch through all steps in their order; each sees only what the ones before have left.

    watch: told after each step how far the batch is
    """
    progress = Progress(records, settings)
    own_steps(progress, settings, "parse", watch)
    progress.edit("clean", clean(progress.texts, settings.clean))
    watch("clean", progress)
    own_steps(progress, settings, "clean", watch)
    languages = judge_languages(progress, settings.language)
    watch("language", progress)
    codes = reasons(progress.texts, settings.rules).tolist()
    progress.sift([StepDrop("rules", REASONS[code]) if code else None for code in codes])
    watch("rules", progress)
    own_steps(progress, settings, "rules", watch)
    documents = _document_rows(progress.rows, progress.texts, [languages[index] for index in progress.left], source)
    dropped = [(record, drop) for record, drop in zip(records, progress.drops, strict=True) if drop]
    return Judged(
        documents=documents,
        dropped=_dropped_rows(dropped, source),
        reasons=[f"{drop.step}: {drop.reason}" for _, drop in dropped],
        figures={"text bytes": int(pc.sum(pc.binary_length(progress.texts)).as_py() or 0), **progress.figures},
    )


def judge_languages(progress: Progress, settings: LanguageSettings) -> dict[int, str]:
    """Drop what is in another language; the language of every record that was looked at, by its index."""
    languages, found = language_reasons(progress.texts, settings)
    codes = dict(zip(progress.left, languages.to_pylist(), strict=True))
    progress.sift(
        [
            None if why is None else StepDrop("language", "other language", code)
            for why, code in zip(found, languages.to_pylist(), strict=True)
        ]
    )
    return codes


def own_steps(
    progress: Progress, settings: DocumentsSettings, after: str, watch: Callable[[str, Progress], None]
) -> None:
    """The recipe's own steps that stand behind one of ours."""
    for entry in settings.steps:
        if entry.after == after:
            applied = apply_step(entry, progress.texts, progress.rows)
            progress.texts = applied.texts
            kind = entry.step.kind
            progress.sift([None if d is None else StepDrop(kind, d.reason, d.detail) for d in applied.drops])
            progress.edit(kind, progress.texts)
            watch(kind, progress)


def _parse_drop(record: Record, settings: DocumentsSettings) -> StepDrop | None:
    if record.drop is not None:
        return StepDrop("parse", record.drop.reason, record.drop.detail)
    if len(record.text) > settings.max_document_bytes or len(record.text.encode()) > settings.max_document_bytes:
        return StepDrop("parse", "too large", f"over {settings.max_document_bytes} bytes")
    return None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyRule:
    """A rule that dropped more of a source than it may. `step` and `reason` are those of its dropped rows."""

    source: str
    step: str
    reason: str
    dropped: int
    documents: int
    bound: float

    def __str__(self) -> str:
        share = f"{self.dropped:,} of {self.documents:,} documents ({self.dropped / self.documents:.0%})"
        return f"Source {self.source!r}: {self.step}: {self.reason} drops {share}"


def greedy_rules(manifest: Manifest, settings: DocumentsSettings) -> list[GreedyRule]:
    """The rules, and steps of one's own, that dropped more than `max_rule_share` of what the source's parser gave.

    Not asked: parsing (an archive holds much that is no page) and language (a crawl is in all of them).
    """
    outcomes = manifest.ledger.account("records").outcomes
    parsed = sum(count for outcome, count in outcomes.items() if not outcome.startswith("dropped: parse:"))
    asked = ("rules", *(entry.step.kind for entry in settings.steps))
    found = []
    for outcome, count in outcomes.items():
        _, step, reason = [*outcome.split(": ", 2), "", ""][:3]
        if step in asked and parsed >= settings.rule_share_from and count > settings.max_rule_share * parsed:
            rule = GreedyRule(
                source=manifest.name,
                step=step,
                reason=reason,
                dropped=count,
                documents=parsed,
                bound=settings.max_rule_share,
            )
            found.append(rule)
    return found
