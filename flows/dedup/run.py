"""Removes duplicates from files: the whole work on one page, from reading to writing.

Texts are read twice. The texts of candidate pairs are read once more if their shingles (runs of words) are not cached.

Promise: the output appears whole or not at all. The result depends on the rows, their order and the settings, not on
the number of workers.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.duplicates.signatures import compute_probability, name_key_columns
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import ShingleSets
from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.kernels.arrays import Int32s, Int64s
from corpora.sources.bytes.unchanged import hold_unchanged
from corpora.sources.contract import to_printable
from corpora.sources.passed_over import FileGroup
from corpora.store.places.files import put_file
from corpora.store.scratch import ScratchTable, open_scratch_file, open_scratch_table
from corpora.store.settings import check_choice
from flows.dedup.columns import ADDED_COLUMNS, merge_types
from flows.dedup.inputs import InputPiece, Inputs, find_corpus_inputs, find_inputs
from flows.dedup.judge import (
    CUT,
    EMPTIED,
    EXACT,
    HAS_COPIES,
    NEAR,
    REASONS,
    UNREAD,
    Recall,
    RowVerdicts,
    judge_rows,
    measure_recall,
)
from flows.dedup.output import PieceVerdict, write_rows
from flows.dedup.parts import PART_KINDS, PartCuts, find_copied_parts, hash_parts
from flows.dedup.sketches import (
    HAS_TEXT,
    NO_TEXT,
    ShingleCache,
    Sketch,
    SketchSettings,
    build_row_sets,
    join_sketches,
    sketch_chunks,
    sketch_piece,
)
from flows.export.exported import open_scratch_folder
from trainer.complete_folders import check_output, put_folder

KEEP_CHOICES = ("first", "longest", "none")
MIN_PARALLEL_BYTES = 32_000_000  # from which on worker processes are worth their start
RECALL_SAMPLES = 150  # texts of which copies are planted
MIN_FOUND_SHARE = 0.99  # of the pairs just as similar as the threshold
INPUT_BYTES_PER_FILE = 256_000_000  # of input that go to one file of a folder
MAX_CACHE_BYTES = 4 << 30  # of shingles in a file, where they need not go from process to process
MAX_WORKER_BYTES = 16_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupSettings:
    """Settings of `cloze dedup`.

    Attributes:
        threshold: Minimum Jaccard similarity of the shingles of near-duplicates.
        rule: "similar" removes all near-duplicates. "contained" removes a near-duplicate only if the kept row has all
            of its shingles.
        text: Name of the text column; "" to guess it.
        id: Name of the column that identifies a row in the output; "" to identify rows by file and row number.
        within: Name of a column; only rows with the same value in it are compared. "" to compare all rows.
        against: A corpus in a store, or files; rows that duplicate one of their rows are removed. "" for none.
        keep: Which row of a group of duplicates is kept: "first", "longest" or "none".
        exact_only: If True, only texts that are equal byte for byte are duplicates.
        parts: "lines" or "paragraphs": the units of text that are removed from kept rows if an earlier row contains
            them. "" to leave texts unchanged.
    """

    threshold: float = 0.8
    rule: str = "similar"
    text: str = ""
    id: str = ""
    within: str = ""
    against: str = ""
    keep: str = "first"
    exact_only: bool = False
    parts: str = ""

    def to_duplicate_settings(self) -> DuplicateSettings:
        """Validate the settings, and convert them to settings of the duplicate search.

        The number of bands is chosen so that at least 99% of the pairs with a similarity equal to the threshold have a
        common band key.

        Raises:
            InputError: If a setting has an unknown value or the threshold is out of range.
        """
        check_choice("--keep", self.keep, KEEP_CHOICES)
        check_choice("--parts", self.parts, PART_KINDS)
        DuplicateSettings(threshold=self.threshold)
        rows = 1
        while rows < 16 and compute_probability(self.threshold, 128 // (rows + 1), rows + 1) >= MIN_FOUND_SHARE:
            rows += 1
        bands = 1 if self.exact_only else 128 // rows
        return DuplicateSettings(threshold=self.threshold, rows=rows, bands=bands, rule=self.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupOutcome:
    """The results that `cloze dedup` prints.

    Attributes:
        files: Number of input files.
        rows: Number of input rows.
        text_bytes: Size of all input texts in bytes.
        kept: Number of kept rows.
        removed: Maps each reason to the number of rows removed for it. Reasons without rows are omitted.
        without_text: Number of rows without a text. They are kept.
        pairs_compared: Number of pairs that were compared exactly.
        comparisons_cut_off: Number of comparisons that were skipped because too many rows share a band key.
        parts_cut: Number of lines or paragraphs that were removed from texts.
        missing: Median and 99th percentile of the share of a near-duplicate's shingles that the kept row lacks; None if
            there are no near-duplicates.
        recall: Recall on edited copies of texts; None if it was not measured.
        not_read: Groups of files in the input folders that were not read.
    """

    files: int
    rows: int
    text_bytes: int
    kept: int
    removed: dict[str, int]
    without_text: int
    pairs_compared: int
    comparisons_cut_off: int
    parts_cut: int
    missing: tuple[float, float] | None
    recall: Recall | None
    not_read: Sequence[FileGroup] = ()


def dedup(inputs: Sequence[str], output: Path, settings: DedupSettings, workers: int) -> DedupOutcome:
    """Write the rows of some files without duplicates, and write the removed rows to separate files next to them.

    Args:
        inputs: Files, folders or glob patterns.
        output: A .parquet or .jsonl file that does not exist, or a folder that does not exist or is empty. A folder
            receives several Parquet files.
        settings: What counts as a duplicate, and which rows are kept.
        workers: Number of worker processes. Small inputs are read in this process.

    Returns:
        The counts of kept and removed rows.

    Raises:
        InputError: If a setting is invalid, the output exists, an input cannot be read, contains no text or changes
            while it is read, or the disk is full.
        OSError: If reading from a disk fails.
    """
    duplicates = settings.to_duplicate_settings()
    _check_absent(output)
    against = find_corpus_inputs(settings.against, settings.text) if settings.against else Inputs(pieces=())
    files = find_inputs(inputs, settings.text, settings.within, settings.id)
    pieces, first = [*against.pieces, *files.pieces], len(against.pieces)  # the first one that is judged
    is_parallel = sum(piece.size for piece in pieces) > MIN_PARALLEL_BYTES and workers > 1
    workers = workers if is_parallel else 1
    columns = dict.fromkeys(("set_hash", *name_key_columns(duplicates.bands)), np.uint64)
    with ExitStack() as stack, ExitStack() as reading:
        call = stack.enter_context(_open_workers(workers))
        scratch = stack.enter_context(open_scratch_folder(output))
        table = stack.enter_context(open_scratch_table(str(scratch), columns))
        max_cache_bytes = 0 if is_parallel else min(MAX_CACHE_BYTES, disk_usage(scratch).free // 4)
        cache = ShingleCache(stack.enter_context(open_scratch_file(str(scratch))), str(scratch), max_cache_bytes)
        reading.enter_context(hold_unchanged({**against.file_states, **files.file_states}))
        sketch_settings = SketchSettings(
            duplicates=duplicates,
            exact_only=settings.exact_only,
            with_types=output.suffix != ".jsonl",
            num_samples=-(-RECALL_SAMPLES // max(len(files.pieces), 1)),  # an empty file has no piece
            with_shingles=max_cache_bytes > 0,
        )
        sketches = _sketch_pieces(call if is_parallel else None, pieces, sketch_settings, table, cache)
        sketch = join_sketches(sketches)
        starts = np.cumsum([0, *(len(each.state) for each in sketches)])
        num_against = int(starts[first])
        _check_has_text(sketch, num_against, settings.text)

        def read_sets(rows: Int64s) -> Iterator[ShingleSets]:
            return _read_sets(call, pieces, starts, sketch.num_shingles, rows, cache, duplicates)

        verdicts = judge_rows(table, sketch, num_against, duplicates, settings.keep, read_sets, str(scratch))
        names = _RowNamer(pieces, starts, [each.ids for each in sketches])
        cuts = _find_part_cuts(call, pieces, starts, verdicts, num_against, settings.parts)
        piece_verdicts = [_build_verdict(verdicts, names, cuts[at], at, starts) for at in range(first, len(pieces))]
        types = merge_types(each.types for each in sketches[first:])
        judged = list(zip(files.pieces, piece_verdicts, strict=True))
        _write_output(call, judged, types, output, scratch, workers, reading)
    parts_cut = sum(int(np.count_nonzero(each.is_removed)) for each in cuts)
    num_files = len({piece.name for piece in files.pieces})
    text_bytes = sum(each.text_bytes for each in sketches[first:])
    outcome = _build_outcome(sketch, verdicts, text_bytes, parts_cut, num_against, num_files, settings, duplicates)
    return replace(outcome, not_read=files.unread_files)


def _sketch_pieces(
    call: Callable[..., Iterator[Any]] | None,
    pieces: Sequence[InputPiece],
    settings: SketchSettings,
    table: ScratchTable,
    cache: ShingleCache,
) -> list[Sketch]:
    """Compute the sketches (hashes for finding duplicates) of all pieces (ranges of files).

    Args:
        call: Function from `_open_workers`, or None to compute the sketches in this process.
        pieces: The pieces.
        settings: What a sketch contains.
        table: The hashes and band keys of all rows are appended to it.
        cache: The shingles of all rows are added to it.

    Returns:
        One sketch per piece, without the arrays that are in the table and the cache.

    Raises:
        InputError: If a file cannot be read, or the disk is full.
    """
    sketches = list[Sketch]()
    results = call(sketch_piece, [(piece, settings) for piece in pieces]) if call else None
    for piece in pieces:
        parts = list[Sketch]()
        for sketch in sketch_chunks(piece, settings) if results is None else [next(results)]:
            if len(sketch.state):
                table.append(sketch.columns)
                cache.add(sketch)
            parts.append(replace(sketch, columns={}, shingles=np.empty(0, np.uint64)))
        sketches.append(join_sketches(parts))
    return sketches


@contextmanager
def _open_workers(workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Open worker processes for the block, and yield a function that runs calls. With one worker, it uses this process.

    It takes a function and an iterable of argument tuples, and yields the results in order. If a call fails, its
    exception is raised; calls that have not started are not run, and raise InputError.
    """
    if workers == 1:
        yield lambda function, calls: (function(*each) for each in calls)
        return
    from corpora.store.worker_pool import WorkerLimits, WorkerPool  # not above: small files need no other process

    limits = WorkerLimits(record_cpu_seconds=3_600.0, memory_bytes=MAX_WORKER_BYTES)
    with WorkerPool(workers, limits) as pool, ThreadPoolExecutor(workers) as threads:
        stop = threading.Event()

        def run_one(function: Callable[..., Result], each: tuple[Any, ...]) -> Result:
            if stop.is_set():
                raise InputError("Another part of the input could not be read.")
            try:
                return pool.run(function, *each)
            except BaseException:
                stop.set()
                raise

        yield lambda function, calls: threads.map(lambda each: run_one(function, each), calls)


def _check_absent(output: Path) -> None:
    """Check that the output does not exist yet. A folder may exist if it is empty.

    Raises:
        InputError: If the output exists.
    """
    if not _is_single_file(output):
        check_output(output)
        return
    for path in _name_output_files(output):
        if path.exists():
            raise InputError(f"{path} exists already, and nothing is replaced: name another, or remove it first.")


def _is_single_file(output: Path) -> bool:
    """Return True if the output is a single file, False if it is a folder."""
    return output.suffix in (".parquet", ".jsonl")


def _name_output_files(output: Path) -> tuple[Path, Path]:
    """Return the paths of the files for kept and for removed rows, such as a.jsonl and a.removed.jsonl.

    Args:
        output: The output, which is a single file.
    """
    return output, output.with_name(f"{output.stem}.removed{output.suffix}")


def _check_has_text(sketch: Sketch, num_against: int, text_column: str) -> None:
    """Check that at least one input row has a text, unless there are no rows.

    Args:
        sketch: The state of all rows.
        num_against: Number of rows at the beginning that belong to the corpus to compare with.
        text_column: Name of the text column, for the message; "" if it was guessed.

    Raises:
        InputError: If none of the rows has a text.
    """
    state = sketch.state[num_against:]
    if len(state) and not (state == HAS_TEXT).any():
        what = f"under {text_column!r}" if text_column else "that could be found"
        raise InputError(f"No row of {len(state):,} has a text {what}: name the column of the text with --text.")


def _read_sets(
    call: Callable[..., Iterator[Any]],
    pieces: Sequence[InputPiece],
    starts: Int64s,
    num_shingles: Int32s,
    rows: Int64s,
    cache: ShingleCache,
    settings: DuplicateSettings,
) -> Iterator[ShingleSets]:
    """Yield the shingle sets (hashes of runs of words) of rows in blocks.

    Sets that are not in the cache are computed again from the texts.

    Args:
        call: Function from `_open_workers`.
        pieces: All pieces of the input.
        starts: int64 [pieces + 1], index of the first row of each piece.
        num_shingles: int32, number of shingles of each row.
        rows: int64, row indices in ascending order.
        cache: The cached shingles of the first rows.
        settings: Settings of the duplicate search.
    """
    num_held = int(np.searchsorted(rows, cache.num_rows))
    yield from cache.read_sets(rows[:num_held], num_shingles)
    firsts = num_held + np.searchsorted(rows[num_held:], starts)
    piece_rows = [rows[first:last] for first, last in pairwise(firsts.tolist())]
    with_words = [each[num_shingles[each] > 0] for each in piece_rows]
    again = [at for at in range(len(pieces)) if len(with_words[at])]
    wanted = (np.bincount(with_words[at] - starts[at], minlength=starts[at + 1] - starts[at]) > 0 for at in again)
    read = call(build_row_sets, ((pieces[at], mask, settings) for at, mask in zip(again, wanted, strict=True)))
    for at, here in enumerate(piece_rows):
        offsets = np.concatenate([[0], np.cumsum(num_shingles[here], dtype=np.int64)])
        yield ShingleSets(next(read).values if len(with_words[at]) else np.empty(0, np.uint64), offsets)


def _find_part_cuts(
    call: Callable[..., Iterator[Any]],
    pieces: Sequence[InputPiece],
    starts: Int64s,
    verdicts: RowVerdicts,
    num_against: int,
    kind: str,
) -> list[PartCuts]:
    """Find the lines or paragraphs to remove from the kept rows of each piece (range of a file).

    The reason of rows that would become empty is set to EMPTIED in `verdicts`.

    Args:
        call: Function from `_open_workers`.
        pieces: All pieces of the input.
        starts: int64 [pieces + 1], index of the first row of each piece.
        verdicts: The decisions about all rows, updated in place.
        num_against: Number of rows at the beginning that belong to the corpus to compare with.
        kind: "lines" or "paragraphs"; "" to find none.
    """
    kept = verdicts.reason == 0
    if not kind:
        return [PartCuts(np.zeros_like(kept[first:last]), kept[:0], "") for first, last in pairwise(starts.tolist())]
    results = list(
        call(hash_parts, [(p, kept[a:b], kind) for p, a, b in zip(pieces, starts[:-1], starts[1:], strict=True)])
    )
    rows, counts = np.flatnonzero(kept), np.concatenate([counts for _, counts in results])
    of_row = np.repeat(rows, counts)
    is_removed = find_copied_parts(np.concatenate([hashes for hashes, _ in results]), counts) & (of_row >= num_against)
    num_removed = np.bincount(of_row[is_removed], minlength=len(kept))
    num_parts = np.bincount(of_row, minlength=len(kept))
    verdicts.reason[(num_removed > 0) & (num_removed == num_parts)] = REASONS.index(EMPTIED)
    is_edited = (num_removed > 0) & (num_removed < num_parts)
    removed_parts, of_row = is_removed[is_edited[of_row]], of_row[is_edited[of_row]]
    ends = np.searchsorted(of_row, starts).tolist()
    return [
        PartCuts(is_edited[first:last], removed_parts[begin:end], kind)
        for (first, last), (begin, end) in zip(pairwise(starts.tolist()), pairwise(ends), strict=True)
    ]


class _RowNamer:
    """Callable that returns the names of rows: the value of the id column, or the file and row number.

    Args:
        pieces: All pieces of the input.
        starts: int64 [pieces + 1], index of the first row of each piece.
        ids: The values of the id column in each piece; empty if there is no such column.
    """

    def __init__(self, pieces: Sequence[InputPiece], starts: Int64s, ids: Sequence[pa.ChunkedArray]) -> None:
        self._starts, self._ids = starts, ids
        self.files = [to_printable(piece.name) for piece in pieces]
        before, firsts = dict[str, int](), list[int]()
        for piece, rows in zip(pieces, np.diff(starts).tolist(), strict=True):
            firsts.append(before.get(piece.name, 0))
            before[piece.name] = firsts[-1] + rows
        self._firsts = np.array(firsts, np.int64)

    def number_rows(self, rows: Int64s) -> Int64s:
        """Return the one-based number of each row in its file: int64.

        Args:
            rows: int64, indices of rows in the whole input.
        """
        at = self._find_pieces(rows)
        return self._firsts[at] + rows - self._starts[at] + 1

    def __call__(self, rows: Int64s) -> list[str]:
        """Return the name of each row: its id, or "FILE:NUMBER" if it has no id."""
        at = self._find_pieces(rows)
        each = zip(at.tolist(), (rows - self._starts[at]).tolist(), self.number_rows(rows).tolist(), strict=True)
        return [
            (self._ids[piece][row].as_py() if len(self._ids[piece]) else "") or f"{self.files[piece]}:{number}"
            for piece, row, number in each
        ]

    def _find_pieces(self, rows: Int64s) -> Int64s:
        """Return the index of the piece (range of a file) that contains each row: int64.

        Args:
            rows: int64, indices of rows in the whole input.
        """
        return np.searchsorted(self._starts, rows, side="right") - 1


def _build_verdict(verdicts: RowVerdicts, names: _RowNamer, cuts: PartCuts, at: int, starts: Int64s) -> PieceVerdict:
    """Build the decisions about the rows of one piece (range of a file).

    Args:
        verdicts: The decisions about all rows.
        names: Callable that returns the names of rows.
        cuts: The lines or paragraphs to remove from the rows of the piece.
        at: Index of the piece.
        starts: int64 [pieces + 1], index of the first row of each piece.
    """
    start, stop = starts[at : at + 2]
    is_kept = verdicts.reason[start:stop] == 0
    rows = start + np.flatnonzero(~is_kept | cuts.is_edited)
    reasons = np.where(verdicts.reason[rows] == 0, REASONS.index(CUT), verdicts.reason[rows])
    survivors = verdicts.survivor[rows]
    is_alone = survivors < 0
    distinct, indices = np.unique(survivors[~is_alone], return_inverse=True)
    index = np.zeros(len(rows), np.int64)
    index[~is_alone] = indices
    are_copies = (reasons == REASONS.index(EXACT)) | (reasons == REASONS.index(NEAR))
    columns = {
        "file": pa.repeat(pa.scalar(names.files[at]), len(rows)),
        "row": pa.array(names.number_rows(rows)),
        "reason": pa.array(REASONS).take(pa.array(reasons)),
        "survivor": pa.array(names(distinct.astype(np.int64)), pa.string()).take(pa.array(index, mask=is_alone)),
        "similarity": pa.array(verdicts.similarity[rows], mask=is_alone),
        "missing": pa.array(verdicts.missing[rows], mask=~are_copies),
    }
    return PieceVerdict(
        is_kept=is_kept, cuts=cuts, added=pa.record_batch(columns, schema=pa.schema(list(ADDED_COLUMNS.items())))
    )


def _write_output(
    call: Callable[..., Iterator[Any]],
    pieces: Sequence[tuple[InputPiece, PieceVerdict]],
    types: Any,
    output: Path,
    scratch: Path,
    workers: int,
    reading: ExitStack,
) -> None:
    """Write all rows to temporary files next to the output, and rename the files at the end.

    Args:
        call: Function from `_open_workers`.
        pieces: Pairs of a piece (a range of a file) and the decisions about its rows.
        types: The column types from `merge_types`.
        output: The file or folder to write.
        scratch: Folder for the temporary files, on the same disk.
        workers: Number of worker processes.
        reading: The context that keeps the inputs open for reading. It is closed before the files are renamed.

    Raises:
        InputError: If an input changed while it was read, or the output has appeared meanwhile.
    """
    if _is_single_file(output):
        kept, removed = (scratch / target.name for target in _name_output_files(output))
        list(call(write_rows, [(pieces, types, kept, removed)]))
        reading.close()
        _check_absent(output)
        for path, target in zip((removed, kept), reversed(_name_output_files(output)), strict=True):
            put_file(path, target)
        return
    folder = scratch / "folder"
    for side in ("kept", "removed"):
        (folder / side).mkdir(parents=True)
    groups = _group_pieces(pieces, workers)
    list(
        call(
            write_rows,
            [
                (group, types, *(folder / side / f"part-{number:05d}.parquet" for side in ("kept", "removed")))
                for number, group in enumerate(groups)
            ],
        )
    )
    reading.close()
    put_folder(folder, output)


def _group_pieces(
    pieces: Sequence[tuple[InputPiece, PieceVerdict]], workers: int
) -> list[list[tuple[InputPiece, PieceVerdict]]]:
    """Group consecutive pieces (ranges of files) so that all output files get about the same number of input bytes.

    Args:
        pieces: Pairs of a piece and the decisions about its rows.
        workers: Number of worker processes. A small input is divided into about this many groups.

    Returns:
        One list of pairs for each output file.
    """
    max_bytes = min(INPUT_BYTES_PER_FILE, sum(piece.size for piece, _ in pieces) // workers + 1)
    groups: list[list[tuple[InputPiece, PieceVerdict]]] = [[]]
    size = 0
    for each in pieces:
        if size >= max_bytes:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each[0].size
    return groups


def _build_outcome(
    sketch: Sketch,
    verdicts: RowVerdicts,
    text_bytes: int,
    parts_cut: int,
    num_against: int,
    files: int,
    settings: DedupSettings,
    duplicates: DuplicateSettings,
) -> DedupOutcome:
    """Count the decisions about the input rows, and measure the recall.

    Args:
        sketch: State of all rows, and the sample of texts.
        verdicts: The decisions about all rows.
        text_bytes: Size of all input texts in bytes.
        parts_cut: Number of lines or paragraphs that were removed from texts.
        num_against: Number of rows at the beginning that belong to the corpus to compare with.
        files: Number of input files.
        settings: Settings of `cloze dedup`.
        duplicates: The same settings for the duplicate search.
    """
    reasons = Counter(REASONS[reason] for reason in verdicts.reason[num_against:].tolist())
    near_missing = verdicts.missing[verdicts.reason == REASONS.index(NEAR)]
    shares = np.quantile(near_missing, (0.5, 0.99), method="inverted_cdf") if len(near_missing) else None
    return DedupOutcome(
        files=files,
        rows=len(sketch.state) - num_against,
        text_bytes=text_bytes,
        kept=reasons.pop("", 0),
        removed={reason: reasons[reason] for reason in (EXACT, NEAR, HAS_COPIES, EMPTIED, UNREAD) if reasons[reason]},
        without_text=int(np.count_nonzero(sketch.state[num_against:] == NO_TEXT)),
        pairs_compared=verdicts.num_compared,
        comparisons_cut_off=verdicts.num_cut,
        parts_cut=parts_cut,
        missing=(float(shares[0]), float(shares[1])) if shares is not None else None,
        recall=measure_recall(sketch.samples[:RECALL_SAMPLES], duplicates)
        if sketch.samples and not settings.exact_only
        else None,
    )
