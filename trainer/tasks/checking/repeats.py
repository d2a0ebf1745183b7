"""Finds repeated rows, in one file or in two, exact or nearly equal, with the same label or different ones.

Rows are exact repeats if their texts differ at most by case, spaces and Unicode normalization. Rows of 12 words or more
are near repeats if they have at least 80 % of their runs of five words in common (`corpora.duplicates`; counted, not
estimated). If rows have several texts, each of them must be similar. Cost: linear in the number of rows. Memory: a key
of each row, and the runs of words of the rows that are compared.
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
    build_finding,
    format_count,
    format_share,
    hash_text,
    list_some,
    quote,
)

NEAR_SETTINGS = DuplicateSettings()
ROWS_AT_ONCE = 1 << 14  # rows that are signed together
MIN_SHINGLES = 8  # of a row that is compared nearly: 12 words
MIN_WORD_OVERLAP = 0.75  # share of words in common that each text of a near pair must have
MAX_LEAK_SHARE = 0.2  # share of evaluation rows that were learnt, from which a score means nothing
MAX_NEAR_LEAK_SHARE = 0.5  # the same of rows that are nearly those learnt
SAME_FILE_SHARE = 0.99  # and from which they are the training rows
MAX_CONTRADICTION_SHARE = 0.2  # share of rows that another one contradicts
CONTRADICTION_RANGE = 0.25  # of the range of numbers, by which two contradict each other
SHARED_ROLES = ("context", "query")  # roles that several rows may share within a file, and no two files should


def find_repeats(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield findings for rows that occur more than once, in one file or in two.

    Args:
        files: The training file first, then the evaluation files. Repeats of training rows may stop a command.
    """
    for file in files:
        yield from _find_repeats_within(file)
        yield from _find_repeated_ids(file)
    for place, file in enumerate(files):
        for earlier in files[:place]:
            yield from _find_repeats_across(file, earlier, learnt=earlier is files[0])
    yield from _find_near_repeats(files)


def _find_repeats_within(file: CheckedFile) -> Iterator[DataFinding]:
    _, first, inverse = np.unique(file.keys, return_index=True, return_inverse=True)
    repeats = np.flatnonzero(first[inverse] != np.arange(len(file))).tolist()
    if not repeats:
        return
    pairs = [(row, int(first[inverse[row]])) for row in repeats]
    against = [pair for pair in pairs if _is_contradiction(file, *pair)]
    if against:
        shown = [f"{file.lines[earlier]} with {file.lines[row]}" for row, earlier in against]
        yield build_finding(
            "contradictions",
            f"{file.short_name}, lines {list_some(shown)}",
            stops=len(against) > MAX_CONTRADICTION_SHARE * len(file),
            rows=format_share(len(against), len(file)),
        )
    same = [row for row, earlier in pairs if not _is_contradiction(file, row, earlier)]
    if same:
        yield file.build_finding("repeated-rows", same, rows=format_share(len(same), len(file)))


def _is_contradiction(file: CheckedFile, row: int, earlier: int) -> bool:
    if file.labels is None:
        return False
    one, other = file.labels[row], file.labels[earlier]
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) > CONTRADICTION_RANGE * file.number_range
    return bool(one != other)


def _find_repeated_ids(file: CheckedFile) -> Iterator[DataFinding]:
    ids = [str(each) for each in file.ids]
    met, again = set[str](), list[int]()
    for row, each in enumerate(ids):
        if file.ids[row] is not None and each in met:
            again.append(row)
        met.add(each)
    if again:
        yield file.build_finding("repeated-ids", again, rows=format_count(len(again)), id=quote(ids[again[0]]))


def _find_repeats_across(file: CheckedFile, earlier: CheckedFile, learnt: bool) -> Iterator[DataFinding]:
    """Yield findings for rows of a file that also occur in an earlier file.

    `learnt` is True if the earlier file is the training file. Only then can a finding stop a command, and only then are
    files with the same rows and shared texts, such as contexts, reported too.
    """
    rows = np.flatnonzero(np.isin(file.keys, earlier.keys)).tolist()
    share = len(rows) / max(1, len(file))
    if rows and learnt and share >= SAME_FILE_SHARE:
        of_all = "has the same rows as" if len(file) == len(earlier) else "is a part of"
        yield file.build_finding("evaluation-in-training", of_all=of_all, training=earlier.short_name)
    elif rows:
        yield file.build_finding(
            "leak",
            rows,
            stops=learnt and share >= MAX_LEAK_SHARE,
            rows=format_share(len(rows), len(file), verb="are"),
            other=earlier.short_name,
        )
    for role in SHARED_ROLES:
        if learnt and share < SAME_FILE_SHARE and role in file.text_roles and role in earlier.text_roles:
            yield from _find_shared_texts(file, earlier, role)


def _find_shared_texts(file: CheckedFile, earlier: CheckedFile, role: str) -> Iterator[DataFinding]:
    """Yield a finding for texts of one role ("context" or "query") that occur in both files."""
    place = file.text_roles.index(role)
    theirs = {hash_text(texts[place]) for texts in earlier.texts}
    rows = [row for row, texts in enumerate(file.texts) if hash_text(texts[place]) in theirs]
    if rows:
        yield file.build_finding(
            "shared-contexts",
            rows,
            rows=format_share(len(rows), len(file)),
            role=role,
            other=earlier.short_name,
        )


def _find_near_repeats(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield findings for rows that are nearly equal to an earlier row in the same file or in an earlier file.

    The first file is the training file.
    """
    ends = np.cumsum([0, *map(len, files)])
    owner = np.repeat(np.arange(len(files)), [len(file) for file in files])
    keys = np.concatenate([file.keys for file in files])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    repeats = np.asarray(first[inverse] != np.arange(len(keys)), np.bool_)
    survivor = find_near_rows([text for file in files for text in file.joined_texts], repeats)
    pairs = [(row, int(survivor[row])) for row in np.flatnonzero(survivor != KEPT).tolist()]
    by_files = dict[tuple[int, int], list[tuple[int, int]]]()
    for row, earlier in pairs:
        mine, theirs = int(owner[row]), int(owner[earlier])
        pair = row - int(ends[mine]), earlier - int(ends[theirs])
        if _are_alike(files[mine].texts[pair[0]], files[theirs].texts[pair[1]]):
            by_files.setdefault((mine, theirs), []).append(pair)
    for (mine, theirs), rows in by_files.items():
        file, other = files[mine], files[theirs]
        yield file.build_finding(
            "near-repeats" if mine == theirs else "near-leak",
            [row for row, _ in rows],
            stops=theirs == 0 != mine and len(rows) >= MAX_NEAR_LEAK_SHARE * len(file),
            rows=format_share(len(rows), len(file), verb="are"),
            other=other.short_name,
            line=other.lines[rows[0][1]],
        )


def find_near_rows(texts: Sequence[str], skipped: Bools) -> Int64s:
    """Find, for each text, an earlier text that is nearly equal.

    Texts of fewer than 12 words are not compared.

    Args:
        texts: The texts.
        skipped: bool [texts], True for texts that are not compared.

    Returns:
        int64 [texts], the index of the earlier text, or KEPT if there is none.
    """
    signed = [
        compute_signatures(_to_arrow(texts[at : at + ROWS_AT_ONCE]), NEAR_SETTINGS.signature)
        for at in range(0, len(texts), ROWS_AT_ONCE)
    ]
    set_hash, shingles = (
        np.concatenate([getattr(each, name) for each in signed]) for name in ("set_hash", "num_shingles")
    )
    sets = np.where((shingles < MIN_SHINGLES) | skipped, EMPTY_SET, set_hash)
    keys = np.concatenate([compute_band_keys(each.signature, NEAR_SETTINGS.band) for each in signed])

    def read(rows: Int64s) -> Iterator[ShingleSets]:
        for at in range(0, len(rows), ROWS_AT_ONCE):
            yield build_shingle_sets(
                _to_arrow([texts[row] for row in rows[at : at + ROWS_AT_ONCE]]), NEAR_SETTINGS.shingle_words
            )

    with open_scratch_file(folder := gettempdir()) as file:
        compared = ShingleFile(file, folder, np.arange(len(texts), dtype=np.int32), read)
        return judge_duplicates(sets, keys, compared, NEAR_SETTINGS).survivor


def _to_arrow(texts: Sequence[str]) -> pa.Array:
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())


def _are_alike(ones: Sequence[str], others: Sequence[str]) -> bool:
    pairs = [({*split_words(one)}, {*split_words(other)}) for one, other in zip(ones, others, strict=True)]
    return all(len(one & other) >= MIN_WORD_OVERLAP * len(one | other) for one, other in pairs)
