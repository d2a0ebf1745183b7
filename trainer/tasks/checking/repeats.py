"""Repeats: rows that come again, within a file and across files, exactly and nearly, with the same label or another.

Exact ones are rows whose texts differ by case, spaces and form of Unicode at most. Near ones are what the deduplicator
of corpora calls so (`corpora.duplicates`: .8 of the runs of five words in common, counted, not estimated), for rows of
12 words or more; of rows with several texts, each text must be alike. Cost: linear in the
rows, as the deduplicator is. Memory: keys of each row while near ones are sought, and the runs of words of those that
are compared.
"""

from collections.abc import Iterator, Sequence
from tempfile import gettempdir

import numpy as np
import pyarrow as pa

from corpora.duplicates.shingle_file import ShingleFile
from corpora.duplicates.signatures import EMPTY_SET, compute_band_keys, compute_signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_duplicates
from corpora.duplicates.sweep import KEPT
from corpora.duplicates.verify import ShingleSets, build_shingle_sets
from corpora.kernels.arrays import Bools, Int64s
from corpora.store.scratch import open_scratch_file
from corpora.text.words import split_words
from trainer.tasks.checking.findings import (
    CheckedFile,
    DataFinding,
    finding,
    hash_of,
    quoted,
    several,
    share_of,
    shortened,
)

NEAR = DuplicateSettings()
AT_ONCE = 1 << 14  # rows that are signed together
FEWEST_SHINGLES = 8  # of a row that is compared nearly: 12 words
ALIKE = 0.75  # share of words in common that each text of a near pair must have
LEAKS = 0.2  # share of evaluation rows that were learnt, from which a score means nothing
NEARLY_LEAKS = 0.5  # the same of rows that are nearly those learnt
SAME = 0.99  # and from which they are the training rows
CONTRADICTED = 0.2  # share of rows that another one contradicts
APART = 0.25  # of the range of numbers, by which two contradict each other
OF_MANY = ("context", "query")  # roles that several rows may share within a file, and no two files should


def repeat_findings(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield rows that come again. files: the training file first"""
    for file in files:
        yield from _within(file)
        yield from _repeated_ids(file)
    for place, file in enumerate(files):
        for earlier in files[:place]:
            yield from _across(file, earlier, learnt=earlier is files[0])
    yield from _near(files)


def _within(file: CheckedFile) -> Iterator[DataFinding]:
    _, first, inverse = np.unique(file.keys, return_index=True, return_inverse=True)
    repeats = np.flatnonzero(first[inverse] != np.arange(len(file))).tolist()
    if not repeats:
        return
    pairs = [(row, int(first[inverse[row]])) for row in repeats]
    against = [pair for pair in pairs if _contradict(file, *pair)]
    if against:
        shown = [f"{file.lines[earlier]} with {file.lines[row]}" for row, earlier in against]
        yield finding(
            "contradictions",
            f"{file.called}, lines {shortened(shown)}",
            stops=len(against) > CONTRADICTED * len(file),
            rows=share_of(len(against), len(file)),
        )
    same = [row for row, earlier in pairs if not _contradict(file, row, earlier)]
    if same:
        yield file.finding("repeated-rows", same, rows=share_of(len(same), len(file)))


def _contradict(file: CheckedFile, row: int, earlier: int) -> bool:
    if file.labels is None:
        return False
    one, other = file.labels[row], file.labels[earlier]
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) > APART * file.number_range
    return bool(one != other)


def _repeated_ids(file: CheckedFile) -> Iterator[DataFinding]:
    ids = [str(each) for each in file.ids]
    met, again = set[str](), list[int]()
    for row, each in enumerate(ids):
        if file.ids[row] is not None and each in met:
            again.append(row)
        met.add(each)
    if again:
        yield file.finding("repeated-ids", again, rows=several(len(again)), id=quoted(ids[again[0]]))


def _across(file: CheckedFile, earlier: CheckedFile, learnt: bool) -> Iterator[DataFinding]:
    """Yield rows that an earlier file has too. learnt: whether it is the training file"""
    rows = np.flatnonzero(np.isin(file.keys, earlier.keys)).tolist()
    share = len(rows) / max(1, len(file))
    if rows and learnt and share >= SAME:
        of_all = "has the same rows as" if len(file) == len(earlier) else "is a part of"
        yield file.finding("evaluation-in-training", of_all=of_all, training=earlier.called)
    elif rows:
        yield file.finding(
            "leak",
            rows,
            stops=learnt and share >= LEAKS,
            rows=share_of(len(rows), len(file), verb="are"),
            other=earlier.called,
        )
    for role in OF_MANY:
        if learnt and share < SAME and role in file.text_roles and role in earlier.text_roles:
            yield from _shared(file, earlier, role)


def _shared(file: CheckedFile, earlier: CheckedFile, role: str) -> Iterator[DataFinding]:
    """Yield contexts or queries that two files share."""
    place = file.text_roles.index(role)
    theirs = {hash_of(texts[place]) for texts in earlier.texts}
    rows = [row for row, texts in enumerate(file.texts) if hash_of(texts[place]) in theirs]
    if rows:
        yield file.finding(
            "shared-contexts", rows, rows=share_of(len(rows), len(file)), role=role, other=earlier.called
        )


def _near(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield rows that are nearly like an earlier one, of the same file or of one before."""
    ends = np.cumsum([0, *map(len, files)])
    owner = np.repeat(np.arange(len(files)), [len(file) for file in files])
    survivor = near_rows([whole for file in files for whole in file.wholes], _repeats(files))
    pairs = [(row, int(survivor[row])) for row in np.flatnonzero(survivor != KEPT).tolist()]
    by_files = dict[tuple[int, int], list[tuple[int, int]]]()
    for row, earlier in pairs:
        mine, theirs = int(owner[row]), int(owner[earlier])
        pair = row - int(ends[mine]), earlier - int(ends[theirs])
        if _each_alike(files[mine].texts[pair[0]], files[theirs].texts[pair[1]]):
            by_files.setdefault((mine, theirs), []).append(pair)
    for (mine, theirs), rows in by_files.items():
        file, other = files[mine], files[theirs]
        yield file.finding(
            "near-repeats" if mine == theirs else "near-leak",
            [row for row, _ in rows],
            stops=theirs == 0 != mine and len(rows) >= NEARLY_LEAKS * len(file),
            rows=share_of(len(rows), len(file), verb="are"),
            other=other.called,
            line=other.lines[rows[0][1]],
        )


def _repeats(files: Sequence[CheckedFile]) -> Bools:
    """Mark rows whose texts are exactly those of an earlier row of any file."""
    keys = np.concatenate([file.keys for file in files])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(first[inverse] != np.arange(len(keys)), np.bool_)


def near_rows(texts: Sequence[str], left_out: Bools) -> Int64s:
    """Return for each text the earlier one that it is nearly, KEPT where none is. left_out: rows not to compare"""
    signed = [
        compute_signatures(_column(texts[at : at + AT_ONCE]), NEAR.signature) for at in range(0, len(texts), AT_ONCE)
    ]
    set_hash, shingles = (
        np.concatenate([getattr(each, name) for each in signed]) for name in ("set_hash", "num_shingles")
    )
    sets = np.where((shingles < FEWEST_SHINGLES) | left_out, EMPTY_SET, set_hash)
    keys = np.concatenate([compute_band_keys(each.signature, NEAR.band) for each in signed])

    def read(rows: Int64s) -> Iterator[ShingleSets]:
        for at in range(0, len(rows), AT_ONCE):
            yield build_shingle_sets(_column([texts[row] for row in rows[at : at + AT_ONCE]]), NEAR.shingle_words)

    with open_scratch_file(folder := gettempdir()) as file:
        compared = ShingleFile(file, folder, np.arange(len(texts), dtype=np.int32), read)
        return judge_duplicates(sets, keys, compared, NEAR).survivor


def _column(texts: Sequence[str]) -> pa.Array:
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())


def _each_alike(ones: Sequence[str], others: Sequence[str]) -> bool:
    pairs = [({*split_words(one)}, {*split_words(other)}) for one, other in zip(ones, others, strict=True)]
    return all(len(one & other) >= ALIKE * len(one | other) for one, other in pairs)
