"""Deduplicates files: the whole on one page. Texts are read twice, and those of candidates once more if their shingles
are not held.

Promise: what is written is whole or not there. The result depends on the rows, their order and the settings, not on
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
from corpora.sources.bytes.unchanged import unchanged
from corpora.sources.contract import readable
from corpora.sources.passed_over import FileGroup
from corpora.store.places.files import put_file
from corpora.store.scratch import ScratchTable, open_scratch_file, open_scratch_table
from corpora.store.settings import check_choice
from flows.dedup.columns import ADDED, merged
from flows.dedup.inputs import (
    InputPiece,
    Inputs,
    inputs_of,
    inputs_of_corpus,
)
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
    judge,
    planted_recall,
)
from flows.dedup.output import Fate, write_rows
from flows.dedup.parts import PARTS, PartCuts, copied, parts_of
from flows.dedup.sketches import (
    HAS_TEXT,
    NO_TEXT,
    HeldShingles,
    Sketch,
    SketchSettings,
    joined,
    sets_of,
    sketch_chunks,
    sketch_piece,
)
from flows.export.exported import scratch_beside
from trainer.complete_folders import check_output, put_folder

KEEPS = ("first", "longest", "none")
ALONE_BYTES = 32_000_000  # from which on worker processes are worth their start
SAMPLES = 150  # texts of which copies are planted
FOUND_AT_THRESHOLD = 0.99  # of the pairs just as similar as the threshold
FILE_BYTES = 256_000_000  # of input that go to one file of a folder
HELD_BYTES = 4 << 30  # of shingles in a file, where they need not go from process to process
WORKER_BYTES = 16_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupSettings:
    """What `cloze dedup` does.

    against:       a corpus in a store, or files: what it has is dropped
    text, id, within: columns: of the text, of a name of each row, of the group in which copies are looked for
    keep:          of several the "first", the "longest" or "none"
    exact_only:    only texts that are equal, byte for byte
    parts:         "lines" or "paragraphs" that an earlier row has are cut out of the texts that stay
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

    def duplicates(self) -> DuplicateSettings:
        """The settings of the kernels: bands that find all but 1 in 100 pairs at the threshold. Raises InputError."""
        check_choice("--keep", self.keep, KEEPS)
        check_choice("--parts", self.parts, PARTS)
        DuplicateSettings(threshold=self.threshold)
        rows = 1
        while rows < 16 and compute_probability(self.threshold, 128 // (rows + 1), rows + 1) >= FOUND_AT_THRESHOLD:
            rows += 1
        bands = 1 if self.exact_only else 128 // rows
        return DuplicateSettings(threshold=self.threshold, rows=rows, bands=bands, rule=self.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupOutcome:
    """What came of it. missing: of near-duplicates, the median and the 99th of 100; None if there are none.

    not_read: files in the given folders that are not read
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
    """Write the rows of some files without duplicates. Raises InputError; OSError where a disk refuses to read."""
    duplicates = settings.duplicates()
    _refuse_existing(output)
    against = inputs_of_corpus(settings.against, settings.text) if settings.against else Inputs(pieces=())
    files = inputs_of(inputs, settings.text, settings.within, settings.id)
    given, own = against.pieces, files.pieces
    pieces = [*given, *own]
    many = sum(piece.size for piece in pieces) > ALONE_BYTES and workers > 1
    columns = dict.fromkeys(("set_hash", *name_key_columns(duplicates.bands)), np.uint64)
    with ExitStack() as stack, ExitStack() as reading:
        call = stack.enter_context(_crew(workers if many else 1))
        scratch = stack.enter_context(scratch_beside(output))
        table = stack.enter_context(open_scratch_table(str(scratch), columns))
        room = 0 if many else min(HELD_BYTES, disk_usage(scratch).free // 4)
        held = HeldShingles(stack.enter_context(open_scratch_file(str(scratch))), str(scratch), room)
        reading.enter_context(unchanged({**against.states, **files.states}))
        sketching = SketchSettings(
            duplicates=duplicates,
            exact_only=settings.exact_only,
            typed=output.suffix != ".jsonl",
            num_samples=-(-SAMPLES // max(len(own), 1)),  # an empty file has no piece
            held=room > 0,
        )
        found = _sketch(call if many else None, pieces, sketching, table, held)
        sketch = joined(found)
        starts = np.cumsum([0, *(len(each.state) for each in found)])
        num_given = int(starts[len(given)])
        _refuse_textless(sketch, num_given, settings.text)

        def read(rows: Int64s) -> Iterator[ShingleSets]:
            return _read_sets(call, pieces, starts, sketch.num_shingles, rows, held, duplicates)

        judged = judge(table, sketch, num_given, duplicates, settings.keep, read, str(scratch))
        names = _RowNames(pieces, starts, [each.ids for each in found])
        cuts = _judge_parts(call, pieces, starts, judged, num_given, settings.parts)
        fates = [_fate(judged, names, cuts[at], at, starts) for at in range(len(given), len(pieces))]
        kinds = merged(each.kinds for each in found[len(given) :])
        _write(call, list(zip(own, fates, strict=True)), kinds, output, scratch, workers if many else 1, reading)
    parts_cut = sum(int(np.count_nonzero(each.gone)) for each in cuts)
    num_files = len({piece.name for piece in own})
    text_bytes = sum(each.text_bytes for each in found[len(given) :])
    outcome = _outcome(sketch, judged, text_bytes, parts_cut, num_given, num_files, settings, duplicates)
    return replace(outcome, not_read=files.not_read)


def _sketch(
    call: Callable[..., Iterator[Any]] | None,
    pieces: Sequence[InputPiece],
    settings: SketchSettings,
    table: ScratchTable,
    held: HeldShingles,
) -> list[Sketch]:
    """Sketch all pieces, here if nobody is to be called. What the table and the file hold is no longer in a sketch."""
    found = list[Sketch]()
    whole = call(sketch_piece, [(piece, settings) for piece in pieces]) if call else None
    for piece in pieces:
        parts = list[Sketch]()
        for sketch in sketch_chunks(piece, settings) if whole is None else [next(whole)]:
            if len(sketch.state):
                table.append(sketch.columns)
                held.add(sketch)
            parts.append(replace(sketch, columns={}, shingles=np.empty(0, np.uint64)))
        found.append(joined(parts))
    return found


@contextmanager
def _crew(workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Calls a function with many arguments, here or on worker processes; results come in order, as they are taken."""
    if workers == 1:
        yield lambda function, calls: (function(*each) for each in calls)
        return
    from corpora.store.worker_pool import WorkerLimits, WorkerPool  # not above: small files need no other process

    limits = WorkerLimits(record_cpu_seconds=3_600.0, memory_bytes=WORKER_BYTES)
    with WorkerPool(workers, limits) as pool, ThreadPoolExecutor(workers) as threads:
        stop = threading.Event()

        def one(function: Callable[..., Result], each: tuple[Any, ...]) -> Result:
            if stop.is_set():
                raise InputError("Another part of the input could not be read.")
            try:
                return pool.run(function, *each)
            except BaseException:
                stop.set()
                raise

        yield lambda function, calls: threads.map(lambda each: one(function, each), calls)


def _refuse_existing(output: Path) -> None:
    if not _is_file(output):
        check_output(output)
        return
    for path in _targets(output):
        if path.exists():
            raise InputError(f"{path} exists already, and nothing is replaced: name another, or remove it first.")


def _is_file(output: Path) -> bool:
    return output.suffix in (".parquet", ".jsonl")


def _targets(output: Path) -> tuple[Path, Path]:
    return output, output.with_name(f"{output.stem}.removed{output.suffix}")


def _refuse_textless(sketch: Sketch, num_given: int, text: str) -> None:
    state = sketch.state[num_given:]
    if len(state) and not (state == HAS_TEXT).any():
        what = f"under {text!r}" if text else "that could be found"
        raise InputError(f"No row of {len(state):,} has a text {what}: name the column of the text with --text.")


def _read_sets(
    call: Callable[..., Iterator[Any]],
    pieces: Sequence[InputPiece],
    starts: Int64s,
    num_shingles: Int32s,
    rows: Int64s,
    held: HeldShingles,
    settings: DuplicateSettings,
) -> Iterator[ShingleSets]:
    """Yield the shingle sets of ascending rows, in blocks; texts are read again if their shingles are not held."""
    num_held = int(np.searchsorted(rows, held.rows))
    yield from held.sets(rows[:num_held], num_shingles)
    firsts = num_held + np.searchsorted(rows[num_held:], starts)
    own = [rows[first:last] for first, last in pairwise(firsts.tolist())]
    wordy = [each[num_shingles[each] > 0] for each in own]
    again = [at for at in range(len(pieces)) if len(wordy[at])]
    wanted = (np.bincount(wordy[at] - starts[at], minlength=starts[at + 1] - starts[at]) > 0 for at in again)
    read = call(sets_of, ((pieces[at], mask, settings) for at, mask in zip(again, wanted, strict=True)))
    for at, here in enumerate(own):
        offsets = np.concatenate([[0], np.cumsum(num_shingles[here], dtype=np.int64)])
        yield ShingleSets(next(read).values if len(wordy[at]) else np.empty(0, np.uint64), offsets)


def _judge_parts(
    call: Callable[..., Iterator[Any]],
    pieces: Sequence[InputPiece],
    starts: Int64s,
    judged: RowVerdicts,
    num_given: int,
    parts: str,
) -> list[PartCuts]:
    """What is cut out of the rows of each piece; a row of which nothing is left is judged so. Raises InputError."""
    kept = judged.reason == 0
    if not parts:
        return [PartCuts(np.zeros_like(kept[first:last]), kept[:0], "") for first, last in pairwise(starts.tolist())]
    found = list(
        call(parts_of, [(p, kept[a:b], parts) for p, a, b in zip(pieces, starts[:-1], starts[1:], strict=True)])
    )
    rows, counts = np.flatnonzero(kept), np.concatenate([counts for _, counts in found])
    of_row = np.repeat(rows, counts)
    gone = copied(np.concatenate([hashes for hashes, _ in found]), counts) & (of_row >= num_given)
    num_gone = np.bincount(of_row[gone], minlength=len(kept))
    num_parts = np.bincount(of_row, minlength=len(kept))
    judged.reason[(num_gone > 0) & (num_gone == num_parts)] = REASONS.index(EMPTIED)
    touched = (num_gone > 0) & (num_gone < num_parts)
    cut, of_row = gone[touched[of_row]], of_row[touched[of_row]]
    ends = np.searchsorted(of_row, starts).tolist()
    return [
        PartCuts(touched[first:last], cut[begin:end], parts)
        for (first, last), (begin, end) in zip(pairwise(starts.tolist()), pairwise(ends), strict=True)
    ]


class _RowNames:
    """What names rows: their file and their number there, from 1 on, or what a column has.

    ids: of each piece, if its rows have them
    """

    def __init__(self, pieces: Sequence[InputPiece], starts: Int64s, ids: Sequence[pa.ChunkedArray]) -> None:
        self._starts, self._ids = starts, ids
        self.files = [readable(piece.name) for piece in pieces]
        before, firsts = dict[str, int](), list[int]()
        for piece, rows in zip(pieces, np.diff(starts).tolist(), strict=True):
            firsts.append(before.get(piece.name, 0))
            before[piece.name] = firsts[-1] + rows
        self._firsts = np.array(firsts, np.int64)

    def numbers(self, rows: Int64s) -> Int64s:
        """The number of each row in its file."""
        at = self._pieces(rows)
        return self._firsts[at] + rows - self._starts[at] + 1

    def __call__(self, rows: Int64s) -> list[str]:
        """The name of each row."""
        at = self._pieces(rows)
        each = zip(at.tolist(), (rows - self._starts[at]).tolist(), self.numbers(rows).tolist(), strict=True)
        return [
            (self._ids[piece][row].as_py() if len(self._ids[piece]) else "") or f"{self.files[piece]}:{number}"
            for piece, row, number in each
        ]

    def _pieces(self, rows: Int64s) -> Int64s:
        return np.searchsorted(self._starts, rows, side="right") - 1


def _fate(judged: RowVerdicts, names: _RowNames, cuts: PartCuts, at: int, starts: Int64s) -> Fate:
    """What becomes of the rows of one piece."""
    start, stop = starts[at : at + 2]
    kept = judged.reason[start:stop] == 0
    rows = start + np.flatnonzero(~kept | cuts.touched)
    reasons = np.where(judged.reason[rows] == 0, REASONS.index(CUT), judged.reason[rows])
    survivors = judged.survivor[rows]
    alone = survivors < 0
    named, places = np.unique(survivors[~alone], return_inverse=True)
    places_of_all = np.zeros(len(rows), np.int64)
    places_of_all[~alone] = places
    copies = (reasons == REASONS.index(EXACT)) | (reasons == REASONS.index(NEAR))
    columns = {
        "file": pa.repeat(pa.scalar(names.files[at]), len(rows)),
        "row": pa.array(names.numbers(rows)),
        "reason": pa.array(REASONS).take(pa.array(reasons)),
        "survivor": pa.array(names(named.astype(np.int64)), pa.string()).take(pa.array(places_of_all, mask=alone)),
        "similarity": pa.array(judged.similarity[rows], mask=alone),
        "missing": pa.array(judged.missing[rows], mask=~copies),
    }
    return Fate(kept=kept, cuts=cuts, added=pa.record_batch(columns, schema=pa.schema(list(ADDED.items()))))


def _write(
    call: Callable[..., Iterator[Any]],
    pieces: Sequence[tuple[InputPiece, Fate]],
    kinds: Any,
    output: Path,
    scratch: Path,
    workers: int,
    reading: ExitStack,
) -> None:
    """Write the rows. reading: ends before anything has its name, and raises InputError if an input changed."""
    if _is_file(output):
        kept, removed = (scratch / target.name for target in _targets(output))
        list(call(write_rows, [(pieces, kinds, kept, removed)]))
        reading.close()
        _refuse_existing(output)
        for path, target in zip((removed, kept), reversed(_targets(output)), strict=True):
            put_file(path, target)
        return
    folder = scratch / "folder"
    for side in ("kept", "removed"):
        (folder / side).mkdir(parents=True)
    groups = _groups(pieces, workers)
    list(
        call(
            write_rows,
            [
                (group, kinds, *(folder / side / f"part-{number:05d}.parquet" for side in ("kept", "removed")))
                for number, group in enumerate(groups)
            ],
        )
    )
    reading.close()
    put_folder(folder, output)


def _groups(pieces: Sequence[tuple[InputPiece, Fate]], workers: int) -> list[list[tuple[InputPiece, Fate]]]:
    """Pieces put together to files of about as many bytes of input."""
    most = min(FILE_BYTES, sum(piece.size for piece, _ in pieces) // workers + 1)
    groups: list[list[tuple[InputPiece, Fate]]] = [[]]
    size = 0
    for each in pieces:
        if size >= most:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each[0].size
    return groups


def _outcome(
    sketch: Sketch,
    judged: RowVerdicts,
    text_bytes: int,
    parts_cut: int,
    num_given: int,
    files: int,
    settings: DedupSettings,
    duplicates: DuplicateSettings,
) -> DedupOutcome:
    reasons = Counter(REASONS[reason] for reason in judged.reason[num_given:].tolist())
    near = judged.missing[judged.reason == REASONS.index(NEAR)]
    shares = np.quantile(near, (0.5, 0.99), method="inverted_cdf") if len(near) else None
    return DedupOutcome(
        files=files,
        rows=len(sketch.state) - num_given,
        text_bytes=text_bytes,
        kept=reasons.pop("", 0),
        removed={reason: reasons[reason] for reason in (EXACT, NEAR, HAS_COPIES, EMPTIED, UNREAD) if reasons[reason]},
        without_text=int(np.count_nonzero(sketch.state[num_given:] == NO_TEXT)),
        pairs_compared=judged.num_compared,
        comparisons_cut_off=judged.num_cut,
        parts_cut=parts_cut,
        missing=(float(shares[0]), float(shares[1])) if shares is not None else None,
        recall=planted_recall(sketch.samples[:SAMPLES], duplicates)
        if sketch.samples and not settings.exact_only
        else None,
    )
