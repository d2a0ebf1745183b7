"""The stage `fits`: statistics of a source, computed from a sample before its documents are judged.

Two things cannot be found in a single document: which lines many documents of a source share (signatures, cookie
notices), and the minimum score of the share of documents that is kept (Stories). Both are computed once, in the first
generation of the source, and are used for all later ones, so new data never makes old documents stale.

The sample is slices of raw input, `sample_bytes` of them in an order drawn from their content: all of a small source.
All other steps are applied to it first, and only lines and scores of the documents that are kept are counted. Cost:
that of reading and judging the sample once more, in one process. Memory: 16 bytes for each different line, some times
that while 64 MB of texts are added to the counts, and these texts with 8 bytes for each of their lines.
"""

import hashlib
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.generic_types import Json
from corpora.judging.batches import JudgedBatch, judge_records, merge_judged, run_watched
from corpora.judging.documents import (
    build_raw_parent,
    collect_settings,
    cut_files,
    find_places_in_slices,
    find_quarantined_places,
    iter_batches,
    read_document_libraries,
    read_slices,
)
from corpora.judging.inputs import JudgingInputs
from corpora.judging.settings import DocumentsSettings
from corpora.judging.source_statistics import CUT, LINES, MIN_DOCUMENTS, RepeatedLineSettings
from corpora.judging.steps.lines import compute_line_hash, hash_lines
from corpora.judging.steps.selection import Histogram, build_histogram, find_cut, merge_histograms, score_documents
from corpora.kernels.arrays import Int64s, UInt64s
from corpora.schema import arrange_columns, count_text_bytes
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally
from corpora.store.ledger import Account, Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.stage import PartPlan, Stage

BUILD_VERSION = 4  # 3: slices of a megabyte; 4: texts as documents have them since their version 7
MAX_WAITING_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsJob:
    """The inputs for computing a source's statistics.

    source:     source that parses the raw files
    settings:   settings of the documents stage
    inputs:     evaluation sets and questions
    slices:     the sampled byte ranges of raw files
    quarantine: locations (file, stream, offset) of records to skip
    """

    source: Source
    settings: DocumentsSettings
    inputs: JudgingInputs
    slices: tuple[Slice, ...]
    quarantine: tuple[str, ...] = ()


def plan_statistics(
    source: Source,
    files: Sequence[RawFile],
    settings: DocumentsSettings,
    inputs: JudgingInputs,
    with_parts: bool = True,
    quarantine: Collection[str] = (),
) -> Stage:
    """Plan the `fits` stage, which computes a source's statistics from a sample of its raw files.

    The stage has a single part (file set).

    Args:
        source: The source that parses the files.
        files: The raw files.
        settings: Settings of the documents stage.
        inputs: Evaluation sets and questions, from `read_inputs`.
        with_parts: If False, the stage has its fingerprint but no parts, and no file is opened.
        quarantine: Locations of records that must not be read, from `quarantine_place`.

    Raises:
        FileFault: If some files cannot be split into slices. It names all of them.
    """
    sample = sample_slices(source, files, settings.repeated_lines.sample_bytes) if with_parts else ()
    quarantined = find_quarantined_places(quarantine, files)
    here = find_places_in_slices(quarantined, sample)
    job = StatisticsJob(source=source, settings=settings, inputs=inputs, slices=sample, quarantine=here)
    key: list[Json] = [piece.to_json() for piece in sample]
    plan = PartPlan(name="fit", key=[*key, {"quarantine": list(here)}] if here else key, job=job)
    determining = collect_settings(source, settings, inputs)
    return Stage(
        kind="fits",
        name=source.name,
        build_version=BUILD_VERSION,
        settings={**determining, **({"quarantine": quarantined} if quarantined else {})},
        part_settings=determining,
        parents=(build_raw_parent(files),),
        libraries=read_document_libraries(source, files),
        parts=(plan,) if with_parts else (),
        build=build_statistics,
    )


def sample_slices(source: Source, files: Sequence[RawFile], size_bytes: int) -> tuple[Slice, ...]:
    """Choose slices of raw files with about `size_bytes` bytes in total, by a hash of each slice.

    Args:
        source: The source that parses the files.
        files: The raw files.
        size_bytes: Size of the sample.

    Returns:
        The chosen slices in file order, or all slices if the files have fewer than `size_bytes` bytes.

    Raises:
        FileFault: If some files cannot be split into slices. It names all of them.
    """
    slices = cut_files(source, files)
    drawn = sorted(slices, key=lambda piece: hashlib.sha256(json.dumps(piece.to_json()[1:]).encode()).digest())
    before = np.cumsum([0, *(piece.stop - piece.start for piece in drawn)])
    chosen = {id(piece) for piece, read in zip(drawn, before.tolist(), strict=False) if read < size_bytes}
    return tuple(piece for piece in slices if id(piece) in chosen)


def build_statistics(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Read the sample, count lines and scores, and write the statistics.

    This is the build function of the `fits` stage.

    Args:
        writer: Writes the tables "lines" and "cut", each only if the settings need it.
        plan: The plan of the part; its job is a `StatisticsJob`.

    Returns:
        A ledger that counts the records in the sample that became documents, and those that were dropped.

    Raises:
        FileFault: If raw files cannot be read. It names all of them.
    """
    job: StatisticsJob = plan.job
    tally, kept, dropped = Tally(job.quarantine), 0, 0
    lines, histograms = RepeatedLines(), [build_histogram(np.empty(0, np.int32))]
    for batch in iter_batches(read_slices(job.source, job.slices, tally)):
        measured = run_watched(batch, partial(_measure, job))
        judged = merge_judged([each.judged for each in measured])
        kept, dropped = kept + judged.documents.num_rows, dropped + judged.dropped.num_rows
        if job.settings.repeated_lines.enabled:
            lines.add_documents(judged.documents.column("text"), *_join_lines([each.lines for each in measured]))
        if job.inputs.questions is not None:
            histograms = [merge_histograms([*histograms, *(each.scores for each in measured)])]
    if job.settings.repeated_lines.enabled:
        with writer.create_table("lines", LINES) as sink:
            sink.write(lines.build_table(job.settings.repeated_lines))
    if job.inputs.questions is not None:
        with writer.create_table("cut", CUT) as sink:
            sink.write(_build_cut_row(histograms, job.settings.selection.share))
    outcomes = {"documents": kept, "dropped": dropped}
    return Ledger(accounts=(Account(unit="records", total=tally.records, outcomes=outcomes),))


class _BatchMeasures(NamedTuple):
    """A judged batch of records, with the line hashes, the hash offsets and the score histogram of its documents."""

    judged: JudgedBatch
    lines: tuple[UInt64s, Int64s]
    scores: Histogram


def _measure(job: StatisticsJob, records: list[Record]) -> _BatchMeasures:
    judged = judge_records(records, job.source.name, job.settings, job.inputs)
    texts = judged.documents.column("text")
    nothing = np.empty(0, np.uint64), np.zeros(len(texts) + 1, np.int64)
    lines = hash_lines(texts) if job.settings.repeated_lines.enabled else nothing
    questions = job.inputs.questions
    scored = score_documents(texts, questions) if questions is not None else np.empty(0, np.int32)
    return _BatchMeasures(judged, lines, build_histogram(scored))


def _join_lines(pieces: Sequence[tuple[UInt64s, Int64s]]) -> tuple[UInt64s, Int64s]:
    """Concatenate the line hashes of several batches, and shift their offsets accordingly.

    Each batch, and the result, is a pair of hashes and offsets as `hash_lines` returns them.
    """
    before = np.cumsum([0, *(hashes.size for hashes, _ in pieces)])
    offsets = [starts[:-1] + shift for (_, starts), shift in zip(pieces, before, strict=False)]
    return np.concatenate([hashes for hashes, _ in pieces]), np.concatenate([*offsets, before[-1:]])


def _build_cut_row(histograms: Sequence[Histogram], share: float) -> pa.Table:
    score_cut = find_cut(histograms, share)
    row = {
        "least_score": [score_cut.threshold],
        "kept": [score_cut.kept],
        "total": [score_cut.total],
        "tied": [score_cut.tied],
    }
    return pa.table(arrange_columns(row, CUT), schema=CUT)


class RepeatedLines:
    """Counts the documents in which each line occurs, and stores the text of frequent lines."""

    def __init__(self) -> None:
        self._hashes: UInt64s = np.empty(0, np.uint64)
        self._counts: Int64s = np.empty(0, np.int64)
        self._lines: dict[int, str] = {}
        self._waiting: list[tuple[pa.Array, UInt64s, Int64s]] = []
        self._waiting_bytes = self._documents = 0

    def add_documents(self, texts: pa.Array, hashes: UInt64s, offsets: Int64s) -> None:
        """Count the lines of a batch of documents. A line counts only once for each document.

        Args:
            texts: The documents, a large_string column without nulls.
            hashes, offsets: The line hashes of these documents, from `hash_lines`.
        """
        self._waiting.append((texts, hashes, offsets))
        self._documents += len(texts)
        self._waiting_bytes += count_text_bytes(texts) + 8 * (len(texts) + 1)  # and their offsets
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._merge_waiting()

    def build_table(self, settings: RepeatedLineSettings) -> pa.Table:
        """Build the table (`LINES`) of the lines that many documents share, in ascending order of their hashes.

        A line is included if it occurs in at least `min_documents` documents and in a share of at least `min_share` of
        all added documents.
        """
        self._merge_waiting()
        chosen = self._counts >= max(settings.min_documents, math.ceil(settings.min_share * self._documents))
        hashes, counts = self._hashes[chosen], self._counts[chosen]
        columns = {"hash": hashes, "documents": counts, "line": [self._lines[key] for key in hashes.tolist()]}
        return pa.table(arrange_columns(columns, LINES), schema=LINES)

    def _merge_waiting(self) -> None:
        """Add the buffered documents to the counts, and empty the buffer.

        The texts of lines that have become frequent are stored.
        """
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        together = np.concatenate([self._hashes, *(hashes for _, hashes, _ in waiting)])
        counts = np.ones(together.size, np.int64)
        counts[: self._counts.size] = self._counts
        self._hashes, places = np.unique(together, return_inverse=True)
        self._counts = np.bincount(places, counts, self._hashes.size).astype(np.int64)
        wanted = {*self._hashes[self._counts >= MIN_DOCUMENTS].tolist()} - self._lines.keys()
        for texts, hashes, offsets in waiting:
            self._store_texts(texts, hashes, offsets, wanted)

    def _store_texts(self, texts: pa.Array, hashes: UInt64s, offsets: Int64s, wanted: set[int]) -> None:
        """Store the text of each wanted line that occurs in these documents, and remove its hash from `wanted`.

        Args:
            texts: The documents, a large_string column without nulls.
            hashes, offsets: The line hashes of these documents, from `hash_lines`.
            wanted: Hashes of the lines to store. Modified in place.
        """
        here = np.flatnonzero(np.isin(hashes, np.fromiter(wanted, np.uint64, len(wanted))))
        for row in np.unique(np.searchsorted(offsets, here, "right") - 1).tolist():
            for line in texts[row].as_py().split("\n"):
                key = compute_line_hash(line)
                if key in wanted:
                    wanted.remove(key)
                    self._lines[key] = line.strip()
