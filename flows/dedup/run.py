"""Deduplicates files: the whole on one page. Texts are read twice, and those of candidates once more.

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

from corpora.duplicates.bands import probability
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import sort_sets
from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.kernels.arrays import Int64s, UInt64s
from corpora.sources.bytes.unchanged import unchanged
from corpora.sources.contract import readable
from corpora.sources.passed_over import FileGroup
from corpora.store.places.files import put_file
from corpora.store.settings import check_choice
from flows.dedup.columns import ADDED
from flows.dedup.inputs import InputPiece, Inputs, inputs_of, inputs_of_corpus
from flows.dedup.judge import CUT, EMPTIED, EXACT, HAS_COPIES, NEAR, REASONS, UNREAD, RowVerdicts, judge
from flows.dedup.output import Fate, write_rows
from flows.dedup.parts import PARTS, PartCuts, copied, parts_of
from flows.dedup.planted import Recall, planted_recall
from flows.dedup.sketches import HAS_TEXT, NO_TEXT, Sketch, joined, sets_of, sketch_piece
from flows.export.folder import scratch_beside
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
        while rows < 16 and probability(self.threshold, 128 // (rows + 1), rows + 1) >= FOUND_AT_THRESHOLD:
            rows += 1
        return DuplicateSettings(threshold=self.threshold, rows=rows, bands=128 // rows, rule=self.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupOutcome:
    """What came of it. missing: of near-duplicates, the median and the 99th of 100; None where there are none.

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
    with _crew(workers if many else 1) as call, scratch_beside(output) as scratch, ExitStack() as reading:
        reading.enter_context(unchanged({**against.states, **files.states}))
        num_samples = -(-SAMPLES // max(len(own), 1))  # an empty file has no piece
        near = not settings.exact_only
        typed = output.suffix != ".jsonl"
        calls = [(piece, duplicates, near, num_samples, typed) for piece in pieces]
        held = scratch / "held"
        found = list(call(sketch_piece, calls)) if many else _held_sketches(calls, held)
        bands = _bands([each.keys for each in found])
        found = [replace(each, keys=each.keys[:, :0].copy()) for each in found]  # most of what a sketch takes
        sketch = joined(found, duplicates, SAMPLES)
        starts = np.cumsum([0, *(len(each.state) for each in found)])
        num_given = int(starts[len(given)])
        _refuse_textless(sketch, num_given, settings.text)

        def read(rows: Int64s) -> Iterator[UInt64s]:
            return _read_sets(call, pieces, found, starts, rows, held, duplicates)

        judged = judge(sketch, bands, num_given, duplicates, settings.keep, read, scratch)
        names = _names(pieces, starts, sketch.ids)
        cuts = _judge_parts(call, pieces, starts, judged, num_given, settings.parts)
        fates = [_fate(judged, names, cuts[at], starts[at], starts[at + 1]) for at in range(len(given), len(pieces))]
        asked = joined(found[len(given) :], duplicates, 0)
        _write(call, list(zip(own, fates, strict=True)), asked.kinds, output, scratch, workers if many else 1, reading)
    parts_cut = sum(int(np.count_nonzero(each.gone)) for each in cuts)
    num_files = len({piece.name for piece in own})
    outcome = _outcome(sketch, judged, asked.text_bytes, parts_cut, num_given, num_files, settings, duplicates)
    return replace(outcome, not_read=files.not_read)


def _held_sketches(calls: Sequence[tuple[InputPiece, DuplicateSettings, bool, int, bool]], path: Path) -> list[Sketch]:
    """The sketches of pieces; their shingles go to a file, up to HELD_BYTES, and then need not be read again."""
    found, room = list[Sketch](), min(HELD_BYTES, disk_usage(path.parent).free // 4)
    with path.open("wb") as file:
        for each in calls:
            start = file.tell()
            sketch = sketch_piece(*each, hold=room - start)
            file.writelines(block.data for block in sketch.shingles)
            found.append(replace(sketch, shingles=(), held=start if sketch.shingles else -1))
    return found


def _bands(keys: Sequence[UInt64s]) -> Iterator[UInt64s]:
    """Yield the keys of all rows, a band at a time. keys: of pieces, each [bands, n]; they are let go with the last."""
    for band in range(len(keys[0]) if keys else 0):
        yield np.concatenate([each[band] for each in keys])


@contextmanager
def _crew(workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Calls a function with many arguments, here or on worker processes; results come in order, as they are taken."""
    if workers == 1:
        yield lambda function, calls: (function(*each) for each in calls)
        return
    from corpora.store.workers.pool import Limits, WorkerPool  # not above: small files need no other process

    limits = Limits(record_cpu_seconds=3_600.0, memory_bytes=WORKER_BYTES)
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
    found: Sequence[Sketch],
    starts: Int64s,
    rows: Int64s,
    held: Path,
    settings: DuplicateSettings,
) -> Iterator[UInt64s]:
    """Yield the shingle sets of ascending rows, piece by piece; texts are read again if a file does not hold them."""
    firsts = np.searchsorted(rows, starts)
    own = [rows[first:last] - start for (first, last), start in zip(pairwise(firsts.tolist()), starts, strict=False)]
    again = [at for at in range(len(pieces)) if len(own[at]) and found[at].held < 0]
    wanted = (np.bincount(own[at], minlength=len(found[at].state)) > 0 for at in again)
    others = call(sets_of, ((pieces[at], mask, settings) for at, mask in zip(again, wanted, strict=True)))
    for at, here in enumerate(own):
        ends = np.cumsum(found[at].num_shingles, dtype=np.int64)
        values = np.empty(int(found[at].num_shingles[here].sum(dtype=np.int64)), np.uint64)
        if len(here) and found[at].held >= 0:
            sort_sets(np.fromfile(held, np.uint64, ends[-1], offset=found[at].held), ends, here, values)
        elif len(here):
            values = next(others).values
        yield values


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


def _names(pieces: Sequence[InputPiece], starts: Int64s, ids: Sequence[str]) -> Callable[[int], tuple[str, int, str]]:
    """Gives a row's file, its number there from 1 on, and what names it."""
    before: dict[str, int] = {}
    firsts = []
    for at, piece in enumerate(pieces):
        firsts.append(before.get(piece.name, 0))
        before[piece.name] = firsts[at] + int(starts[at + 1] - starts[at])
    without = int(starts[-1]) - len(ids)  # the rows of another corpus have no ids

    def name(row: int) -> tuple[str, int, str]:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        number = firsts[at] + row - int(starts[at]) + 1
        id = ids[row - without] if ids and row >= without else ""
        file = readable(pieces[at].name)
        return file, number, id or f"{file}:{number}"

    return name


def _fate(
    judged: RowVerdicts, names: Callable[[int], tuple[str, int, str]], cuts: PartCuts, start: int, stop: int
) -> Fate:
    kept = judged.reason[start:stop] == 0
    rows = start + np.flatnonzero(~kept | cuts.touched)
    file, first, _ = names(int(rows[0])) if len(rows) else ("", 0, "")
    reasons = np.where(judged.reason[rows] == 0, REASONS.index(CUT), judged.reason[rows])
    survivors, places = np.unique(judged.survivor[rows], return_inverse=True)
    alone = judged.survivor[rows] < 0
    copies = (reasons == REASONS.index(EXACT)) | (reasons == REASONS.index(NEAR))
    columns = {
        "file": pa.repeat(pa.scalar(file), len(rows)),
        "row": pa.array(first + rows - rows[:1], pa.int64()),
        "reason": pa.array(REASONS).take(pa.array(reasons)),
        "survivor": pa.array([names(row)[2] if row >= 0 else None for row in survivors.tolist()], pa.string()).take(
            pa.array(places)
        ),
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
        recall=planted_recall(sketch.samples, duplicates) if sketch.samples and not settings.exact_only else None,
    )
