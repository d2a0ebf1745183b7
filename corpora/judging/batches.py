"""Judging: apply all steps to a batch of records, which turn the text from its source into a document or a drop.

    parse ─► clean ─► lines ─► language ─► rules ─► personal data ─► contamination ─► selection

Each step sees only the records that the steps before it have left. Clean, lines and personal data change texts; the
other steps judge them. Steps of other packages come after parse, clean or rules (`corpora.judging.steps.added`). The
result for a record depends on the record, on the settings and the files that they name, and on the statistics of its
source, but not on its batch.

`STEPS` is the only list of the steps. A new step is a file in `steps/`, a field of `DocumentsSettings`
(`corpora.judging.settings`), and a function and its entry here: recipes, the reference and previews follow.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import pyarrow as pa

from corpora.generic_types import Result
from corpora.judging.batch_state import BatchState, StepDrop
from corpora.judging.inputs import NO_INPUTS, JudgingInputs
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.added import apply_step
from corpora.judging.steps.clean import clean_and_count
from corpora.judging.steps.contamination import find_evaluation_matches
from corpora.judging.steps.language import choose_rule_languages, judge_languages
from corpora.judging.steps.lines import LineSettings, edit_lines
from corpora.judging.steps.privacy import mask_private
from corpora.judging.steps.rules import REASONS, compute_quality_of_counts, describe_failures, judge_counts
from corpora.judging.steps.selection import score_documents
from corpora.schema import (
    DOCUMENTS,
    DROPPED,
    arrange_columns,
    compute_keyed_id,
    compute_record_id,
    count_text_bytes,
    cut_excerpt,
)
from corpora.sources.contract import Record, to_quarantine_key
from corpora.store.current_record import report_step, run_batch
from corpora.text.counts.languages import find_terms, measure_texts_in

NO_TABLE_PREFIX = "no table of words: "  # begins the name of the figure of a language


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingStep:
    """A judging step, as listed in `STEPS`.

    name:   name used in previews, reports and the reasons of dropped records
    tables: names of the recipe tables with its settings, which are fields of `DocumentsSettings`
    apply:  function that applies the step to a batch in place; it does nothing if the settings disable the step
    """

    name: str
    tables: tuple[str, ...]
    apply: Callable[[BatchState, DocumentsSettings, JudgingInputs], None]


def _clean_texts(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Repair and normalize the texts of a batch in place. Lines that could only be partly repaired are counted."""
    texts, given_up = clean_and_count(batch.texts, settings.clean)
    if given_up:
        batch.figures["lines repaired in part"] += given_up
    batch.replace_texts("clean", texts)


def _edit_lines(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Remove lines that fail a line rule, or that many documents share, from the texts of a batch, in place.

    The removed lines are counted by rule in `batch.figures`. Nothing is done if no rule is enabled.
    """
    repeated = inputs.statistics.repeated_lines
    if settings.lines != LineSettings() or repeated is not None:
        texts, removed = edit_lines(batch.texts, settings.lines, repeated)
        for rule, count in removed.items():
            batch.figures[f"lines removed: {rule.removeprefix('lines.')}"] += count
        batch.replace_texts("lines", texts)


def _judge_language(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Detect the language of each document in a batch, set the column `language`, and drop unwanted languages."""
    languages, reasons = judge_languages(batch.texts, settings.language)
    codes = languages.to_pylist()
    batch.set_column("language", codes)
    batch.apply_drops(
        "language",
        [
            StepDrop("language", "other language", code) if reason else None
            for reason, code in zip(reasons, codes, strict=True)
        ],
    )


def _judge_rules(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Set the column `quality` of a batch, and drop documents that fail a rule of `settings.rules`.

    Languages without word statistics are counted in `batch.figures`.
    """
    languages = choose_rule_languages(batch.columns["language"], settings.language)
    counts = measure_texts_in(batch.texts, languages, runs=settings.rules.repetition.enabled)
    codes = judge_counts(counts, settings.rules, languages)
    batch.set_column("quality", compute_quality_of_counts(counts).tolist())
    batch.figures.update(f"{NO_TABLE_PREFIX}{code}" for code in languages if not find_terms(code).stop_words)
    failures = zip(codes.tolist(), describe_failures(counts, codes, languages), strict=True)
    batch.apply_drops(
        "rules", [StepDrop("rules", REASONS[code], detail) if code else None for code, detail in failures]
    )


def _mask_personal_data(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Replace personal data in the texts of a batch, in place.

    The replacements are counted by kind in `batch.figures`.
    """
    if any(settings.personal_data.kinds):
        languages = choose_rule_languages(batch.columns["language"], settings.language)
        texts, masked = mask_private(batch.texts, settings.personal_data, languages)
        batch.figures.update({f"masked: {kind}": count for kind, count in masked.items()})
        batch.replace_texts("personal data", texts)


def _drop_contaminated(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Drop documents of a batch that share a run of words with an evaluation set, and count them in `batch.figures`.

    If the setting `contamination.drop` is False, they are counted but not dropped.
    """
    if inputs.evaluation is not None:
        matches, drop = find_evaluation_matches(batch.texts, inputs.evaluation), settings.contamination.drop
        batch.figures.update(f"meets {match.set}" for match in matches if match is not None)
        drops = [None if m is None or not drop else StepDrop("contamination", m.set, m.detail) for m in matches]
        batch.apply_drops("contamination", drops)


def _select_by_score(batch: BatchState, settings: DocumentsSettings, inputs: JudgingInputs) -> None:
    """Drop the documents of a batch that `score_documents` scored below the source's minimum score."""
    least = inputs.statistics.least_score
    if inputs.questions is not None and least is not None:
        values = score_documents(batch.texts, inputs.questions).tolist()
        batch.apply_drops(
            "selection",
            [StepDrop("selection", "low score", str(score)) if score < least else None for score in values],
        )


STEPS = (
    JudgingStep(name="clean", tables=("clean",), apply=_clean_texts),
    JudgingStep(name="lines", tables=("lines", "repeated_lines"), apply=_edit_lines),
    JudgingStep(name="language", tables=("language",), apply=_judge_language),
    JudgingStep(name="rules", tables=("rules",), apply=_judge_rules),
    JudgingStep(name="personal data", tables=("personal_data",), apply=_mask_personal_data),
    JudgingStep(name="contamination", tables=("contamination",), apply=_drop_contaminated),
    JudgingStep(name="selection", tables=("selection",), apply=_select_by_score),
)
_SETTINGS_TYPES = get_type_hints(DocumentsSettings)
STEP_TABLES: Mapping[str, type[Any]] = {table: _SETTINGS_TYPES[table] for step in STEPS for table in step.tables}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBatch:
    """The result of all judging steps for a batch of records: the documents and the dropped records.

    `reasons` has a string "STEP: REASON" for each row of `dropped`, in the same order. `figures` are counts for
    reports.
    """

    documents: pa.RecordBatch
    dropped: pa.RecordBatch
    reasons: list[str]
    figures: Mapping[str, int]


def run_watched(records: Sequence[Record], work: Callable[[list[Record]], Result]) -> list[Result]:
    """Call `work` with a batch of records, or with single records if this batch has crashed a worker process before.

    Processing records one at a time allows the watcher to identify the record that causes the crash.

    Returns:
        The results of all calls to `work`, in order.
    """
    return run_batch(records, lambda record: to_quarantine_key(record.locator), lambda some: work([*some]))


def judge_watched(
    records: list[Record], source: str, settings: DocumentsSettings, inputs: JudgingInputs = NO_INPUTS
) -> JudgedBatch:
    """Judge records as `judge_records` does, but one at a time if this batch has crashed a worker process before.

    Args:
        records: The records of a batch. Must not be empty.
        source: Name of their source.
        settings: Settings of all steps.
        inputs: Evaluation sets, questions and statistics.

    Raises:
        InputError: If a step from another package returns an invalid result.
    """
    return merge_judged(run_watched(records, lambda some: judge_records(some, source, settings, inputs)))


def merge_judged(pieces: Sequence[JudgedBatch]) -> JudgedBatch:
    """Merge the results of a batch that was judged record by record.

    Args:
        pieces: The results, in order. Must not be empty.

    Returns:
        All rows and reasons in their order, and the sums of `figures`.
    """
    if len(pieces) == 1:
        return pieces[0]
    figures = Counter[str]()
    for piece in pieces:
        figures.update(piece.figures)
    return JudgedBatch(
        documents=pa.concat_batches([piece.documents for piece in pieces]),
        dropped=pa.concat_batches([piece.dropped for piece in pieces]),
        reasons=[reason for piece in pieces for reason in piece.reasons],
        figures=figures,
    )


def judge_records(
    records: list[Record],
    source: str,
    settings: DocumentsSettings,
    inputs: JudgingInputs = NO_INPUTS,
    on_step: Callable[[str, BatchState], None] = lambda step, batch: None,
) -> JudgedBatch:
    """Apply all judging steps to a batch of records.

    Args:
        records: The records. A record that its parser dropped needs no text; it becomes a dropped row.
        source: Name of their source, which is part of the document ids.
        settings: Settings of all steps.
        inputs: Evaluation sets, questions and statistics.
        on_step: Called after each step with its name and the state of the batch.

    Raises:
        InputError: If a step from another package returns an invalid result.
    """
    batch = BatchState(records, settings.max_document_bytes, on_step)
    _apply_added_steps(batch, settings, "parse")
    for step in STEPS:
        report_step(step.name)
        step.apply(batch, settings, inputs)
        _apply_added_steps(batch, settings, step.name)
    dropped = [(record, drop) for record, drop in zip(records, batch.drops, strict=True) if drop]
    return JudgedBatch(
        documents=_build_document_rows(batch, source),
        dropped=_build_dropped_rows(dropped, source),
        reasons=[f"{drop.step}: {drop.reason}" for _, drop in dropped],
        figures={"text bytes": count_text_bytes(batch.texts), **batch.figures},
    )


def _apply_added_steps(batch: BatchState, settings: DocumentsSettings, after: str) -> None:
    """Apply the steps from other packages that are configured to run directly after the step `after`, in place.

    Args:
        batch: The texts and columns to change.
        settings: Its `steps` lists the steps.
        after: "parse", "clean" or "rules"; nothing runs after other steps.

    Raises:
        InputError: If a step returns an invalid result.
    """
    for entry in settings.steps:
        if entry.after == after:
            kind = entry.step.kind
            report_step(kind)
            applied = apply_step(entry, batch.texts, batch.records_left)
            batch.texts = applied.texts
            batch.apply_drops(kind, [None if d is None else StepDrop(kind, d.reason, d.detail) for d in applied.drops])


def compute_document_id(record: Record, source: str) -> bytes:
    """Compute the document id of a record, 16 bytes, from its source and its key, or its raw bytes if it has no key."""
    return compute_keyed_id(source, record.key) if record.key is not None else compute_record_id(source, record.raw)


def _build_document_rows(batch: BatchState, source: str) -> pa.RecordBatch:
    records = batch.records_left
    columns = {
        **_build_common_columns(records, source),
        "text": batch.texts,
        "url": [record.url for record in records],
        "date": [record.date for record in records],
        "license": [record.license for record in records],
        "group": [record.group for record in records],
        "meta": [record.meta for record in records],
        **batch.columns,
    }
    return pa.RecordBatch.from_arrays(arrange_columns(columns, DOCUMENTS), schema=DOCUMENTS)


def _build_dropped_rows(dropped: list[tuple[Record, StepDrop]], source: str) -> pa.RecordBatch:
    nothing = [None] * len(dropped)
    columns = {
        **_build_common_columns([record for record, _ in dropped], source),
        "step": [drop.step for _, drop in dropped],
        "reason": [drop.reason for _, drop in dropped],
        "detail": [drop.detail or None for _, drop in dropped],
        "survivor": nothing,
        "similarity": nothing,
        "excerpt": [cut_excerpt(record.text) for record, _ in dropped],
    }
    return pa.RecordBatch.from_arrays(arrange_columns(columns, DROPPED), schema=DROPPED)


def _build_common_columns(records: list[Record], source: str) -> dict[str, list[object]]:
    return {
        "id": [compute_document_id(record, source) for record in records],
        "keyed": [record.key is not None for record in records],
        "revision": [record.revision for record in records],
        "source": [source] * len(records),
        "locator": [
            {name: getattr(record.locator, name) for name in ("file", "sha256", "stream", "offset", "length")}
            for record in records
        ],
        "title": [record.title for record in records],
    }
