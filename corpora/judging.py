"""Judging: a batch of records through all steps, from the text as its source gives it to a document or a drop.

    parse ─► clean ─► lines ─► language ─► rules ─► personal data ─► contamination ─► selection

Each step sees only what the ones before have left; a record leaves at the first that drops it. Lines and personal data
change texts, the others judge them. Steps of one's own stand behind parse, clean or rules (`corpora.steps`). What comes
of a record depends on the record and the settings alone, not on its batch. Those settings whose step is off by default
leave the fingerprints of older documents as they were.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from corpora.clean import CleanSettings, clean
from corpora.contamination import ContaminationSettings, EvaluationIndex, build_index, meet
from corpora.fitted import RepeatedLineSettings
from corpora.language import LanguageSettings, language_reasons
from corpora.lines import LineSettings, edit_lines
from corpora.privacy import PersonalDataSettings, mask_private
from corpora.rules import REASONS, RulesSettings, details_of, quality_of, reasons_of
from corpora.schema import DOCUMENTS, DROPPED, excerpt, keyed_id, record_id
from corpora.sources.source import Record
from corpora.steps import StepEntry, apply_step
from corpora.store.settings import added, added_table, check_range, limit
from corpora.stories_score import QuestionIndex, StoriesScoreSettings, index_questions, read_questions, scores
from corpora.text.count_kernels import count
from corpora.text.ngram_kernels import Hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsSettings:
    """How records become documents.

    part_bytes:         raw bytes a part reads; decides how the rows are cut, not what they are
    max_document_bytes: a longer document is dropped
    max_damaged_share:  a larger share of damaged records stops the run
    max_rule_share:     a rule, or a step of one's own, that drops a larger share of a source's documents stops the run
    rule_share_from:    documents from which on a source is asked for that
    """

    clean: CleanSettings = field(default_factory=CleanSettings)
    language: LanguageSettings = field(default_factory=LanguageSettings)
    rules: RulesSettings = field(default_factory=RulesSettings)
    steps: tuple[StepEntry, ...] = added(neutral=())
    lines: LineSettings = added_table(LineSettings)
    repeated_lines: RepeatedLineSettings = added_table(RepeatedLineSettings)
    personal_data: PersonalDataSettings = added_table(PersonalDataSettings)
    contamination: ContaminationSettings = added_table(ContaminationSettings)
    selection: StoriesScoreSettings = added_table(StoriesScoreSettings)
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
class Learnt:
    """What documents are judged by beside settings; None where a step is off.

    evaluation:  the items of evaluation sets
    questions:   what selection scores documents by
    repeated:    hashes of lines that stand in many documents of the source, ascending
    least_score: of a document that selection keeps
    """

    evaluation: EvaluationIndex | None = None
    questions: QuestionIndex | None = None
    repeated: Hashes | None = None
    least_score: int | None = None


NOTHING_LEARNT = Learnt()


def learn(settings: DocumentsSettings) -> Learnt:
    """What the settings name by path, read: evaluation sets and questions. Raises InputError where it cannot be."""
    paths = [*(group.path for group in settings.contamination.sets), *settings.selection.questions]
    return _learn(settings.contamination, settings.selection, tuple(_stamp(Path(path)) for path in paths))


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes with a file."""
    if not path.exists():
        return ()
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


@lru_cache(maxsize=8)
def _learn(
    contamination: ContaminationSettings, selection: StoriesScoreSettings, stamps: tuple[tuple[int, ...], ...]
) -> Learnt:
    return Learnt(
        evaluation=build_index(contamination) if contamination.sets else None,
        questions=index_questions(read_questions(selection.questions)) if selection.questions else None,
    )


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

    def __init__(
        self, records: Sequence[Record], settings: DocumentsSettings, watch: "Callable[[str, Progress], None]"
    ) -> None:
        self.records = records
        self._watch = watch
        self.drops = [_parse_drop(record, settings) for record in records]
        self.left = [index for index, drop in enumerate(self.drops) if drop is None]
        self.texts = pa.array([records[index].text for index in self.left], pa.large_string())
        self.figures = Counter[str]()

    @property
    def rows(self) -> list[Record]:
        """The records that are left."""
        return [self.records[index] for index in self.left]

    def edit(self, step: str, texts: pa.Array) -> None:
        """Take a step's texts."""
        self.texts = texts
        self.sift(step, [None] * len(texts))

    def sift(self, step: str, found: Sequence[StepDrop | None]) -> None:
        """Note what a step found in each row, and keep those in which it found nothing and left something."""
        lengths = pc.binary_length(self.texts).to_pylist()
        drops = [drop or (None if n else StepDrop(step, "empty")) for drop, n in zip(found, lengths, strict=True)]
        for index, drop in zip(self.left, drops, strict=True):
            self.drops[index] = drop
        stays = [drop is None for drop in drops]
        if not all(stays):
            self.left = [index for index, kept in zip(self.left, stays, strict=True) if kept]
            self.texts = self.texts.filter(pa.array(stays, pa.bool_()))
        self._watch(step, self)


def judge_records(
    records: list[Record],
    source: str,
    settings: DocumentsSettings,
    learnt: Learnt = NOTHING_LEARNT,
    watch: Callable[[str, Progress], None] = lambda step, progress: None,
) -> Judged:
    """Take a batch through all steps in their order.

    watch: told after each step how far the batch is
    """
    progress = Progress(records, settings, watch)
    _own_steps(progress, settings, "parse")
    progress.edit("clean", clean(progress.texts, settings.clean))
    _own_steps(progress, settings, "clean")
    _edit_lines(progress, settings.lines, learnt.repeated)
    languages = _judge_languages(progress, settings.language)
    qualities = _judge_rules(progress, settings.rules)
    _own_steps(progress, settings, "rules")
    _mask(progress, settings.personal_data)
    _decontaminate(progress, settings.contamination, learnt.evaluation)
    _select(progress, learnt)
    documents = _document_rows(progress, languages, qualities, source)
    dropped = [(record, drop) for record, drop in zip(records, progress.drops, strict=True) if drop]
    return Judged(
        documents=documents,
        dropped=_dropped_rows(dropped, source),
        reasons=[f"{drop.step}: {drop.reason}" for _, drop in dropped],
        figures={"text bytes": int(pc.sum(pc.binary_length(progress.texts)).as_py() or 0), **progress.figures},
    )


def _edit_lines(progress: Progress, settings: LineSettings, repeated: Hashes | None) -> None:
    """Take lines out that the rules of lines name, or that stand in many documents of the source."""
    if settings != LineSettings() or repeated is not None:
        texts, removed = edit_lines(progress.texts, settings, repeated)
        for rule, count in removed.items():
            progress.figures[f"lines removed: {rule.removeprefix('lines.')}"] += count
        progress.edit("lines", texts)


def _judge_languages(progress: Progress, settings: LanguageSettings) -> dict[int, str]:
    """Drop what is in another language; the language of every record that was looked at, by its index."""
    languages, found = language_reasons(progress.texts, settings)
    codes = dict(zip(progress.left, languages.to_pylist(), strict=True))
    drops = [
        None if why is None else StepDrop("language", "other language", code)
        for why, code in zip(found, languages.to_pylist(), strict=True)
    ]
    progress.sift("language", drops)
    return codes


def _judge_rules(progress: Progress, settings: RulesSettings) -> dict[int, int]:
    """Drop what fails a rule; the quality of every record that was looked at, by its index."""
    counts = count(progress.texts, runs=settings.repetition.enabled)
    codes = reasons_of(counts, settings)
    qualities = dict(zip(progress.left, quality_of(counts).tolist(), strict=True))
    found = zip(codes.tolist(), details_of(counts, codes), strict=True)
    progress.sift("rules", [StepDrop("rules", REASONS[code], detail) if code else None for code, detail in found])
    return qualities


def _own_steps(progress: Progress, settings: DocumentsSettings, after: str) -> None:
    """The recipe's own steps that stand behind one of ours."""
    for entry in settings.steps:
        if entry.after == after:
            applied = apply_step(entry, progress.texts, progress.rows)
            kind = entry.step.kind
            progress.texts = applied.texts
            progress.sift(kind, [None if d is None else StepDrop(kind, d.reason, d.detail) for d in applied.drops])


def _mask(progress: Progress, settings: PersonalDataSettings) -> None:
    """Put something else in the place of personal data."""
    if any(settings.kinds):
        texts, masked = mask_private(progress.texts, settings)
        progress.figures.update({f"masked: {kind}": count for kind, count in masked.items()})
        progress.edit("personal data", texts)


def _decontaminate(progress: Progress, settings: ContaminationSettings, evaluation: EvaluationIndex | None) -> None:
    """Drop, or only count, what holds a piece of an evaluation set."""
    if evaluation is not None:
        met = meet(progress.texts, evaluation)
        progress.figures.update(f"meets {meeting.set}" for meeting in met if meeting is not None)
        drops = [None if m is None or not settings.drop else StepDrop("contamination", m.set, m.detail) for m in met]
        progress.sift("contamination", drops)


def _select(progress: Progress, learnt: Learnt) -> None:
    """Keep what scores as high as the share of the source that is wanted."""
    if learnt.questions is not None and learnt.least_score is not None:
        found = scores(progress.texts, learnt.questions).tolist()
        low = [
            StepDrop("selection", "low score", str(score)) if score < learnt.least_score else None for score in found
        ]
        progress.sift("selection", low)


def _parse_drop(record: Record, settings: DocumentsSettings) -> StepDrop | None:
    if record.drop is not None:
        return StepDrop("parse", record.drop.reason, record.drop.detail)
    if len(record.text) > settings.max_document_bytes or len(record.text.encode()) > settings.max_document_bytes:
        return StepDrop("parse", "too large", f"over {settings.max_document_bytes} bytes")
    return None


def document_id(record: Record, source: str) -> bytes:
    """A record's identity: of its key where its source has one, else of its own bytes."""
    return keyed_id(source, record.key) if record.key is not None else record_id(source, record.raw)


def _document_rows(
    progress: Progress, languages: Mapping[int, str], qualities: Mapping[int, int], source: str
) -> pa.RecordBatch:
    records = progress.rows
    columns = {
        **_common_columns(records, source),
        "text": progress.texts,
        "url": [record.url for record in records],
        "date": [record.date for record in records],
        "language": [languages[index] for index in progress.left],
        "license": [record.license for record in records],
        "group": [record.group for record in records],
        "meta": [record.meta for record in records],
        "quality": [qualities[index] for index in progress.left],
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
