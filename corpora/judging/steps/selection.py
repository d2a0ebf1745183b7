"""The score with which the Stories corpus was selected: the overlap of n-grams of a document and a set of questions.

Trinh & Le 2018, section 5.3: documents of Common Crawl are ranked by their overlap with the questions of the
commonsense tests, score = sum over n = 1..4 of n F1(n), over the sum of n; the best 0.1% are the corpus. The paper
leaves the rest open. Here, all questions together are one bag of n-grams, so a document that shares a little with many
of them scores as one that shares much with a few, and the score is small (the paper names 0.08 for its best document;
of 6,313 chapters, web pages and news the best here has 0.071, fan fiction). An n-gram counts at most as often as it is
in the questions: with o of them shared, d in the document and q in the questions, precision is o/d, recall o/q, F1 =
2o/(d+q). Words are those of `corpora.text.words`: case and marks do not matter. An n-gram does not cross a question's
end, nor the gap where its pronoun was taken out; the candidate answers are not part of it.

Promise: `score_documents` equals `score_text`, the definition, row by row, in whole millionths, so that no order of
additions matters; `cut` depends on how many documents have which score and on nothing else, in one pass, with
at most 8 MB for any corpus. Cost: 150 MB a second.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import finish
from corpora.text.buffers import to_text_buffers
from corpora.text.ngrams import find_key, hash_ngram, make_slots
from corpora.text.normal_form import to_nfc
from corpora.text.shingles import SHINGLE_FACTOR
from corpora.text.word_kernels import compute_max_words, hash_words
from corpora.text.words import WORDS_VERSION, WordTables, read_word_tables, split_words

MAX_NGRAM_WORDS = 4  # words: the n-grams of the paper go from one to four
MAX_SCORE = 1_000_000  # what a document would score that is the questions themselves
GAP = "[MASK]"
ENDINGS = (".txt", ".xml", ".jsonl")

Question = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoriesScoreSettings:
    """Settings for keeping only the documents that are most similar to a set of questions.

    questions: files of questions: .txt, .xml (Winograd schemas) or .jsonl; if empty, the step is off
    share:     share of all documents to keep, 0 to 1; the paper uses 0.001
    """

    questions: tuple[str, ...] = ()
    share: float = 0.001

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"selection.share is {self.share}: it is the share of documents kept, such as 0.001.")

    def to_json(self) -> dict[str, Json]:
        """Return a description of the settings for fingerprints: "share", and "files", the number of files.

        The questions are not included; `collect_settings` adds the digest of their index.
        """
        return {"share": self.share, "files": len(self.questions)}


# The questions.


def read_questions(paths: Sequence[str]) -> list[Question]:
    """Read the questions of all files, in the order of the files' names.

    A question is split at the gap "[MASK]" into pieces, if it has one. Pieces without a word are omitted.

    A .txt file has one question on each line. If one of its lines is only "[MASK]", it has the format of WSC273 and
    PDP: the sentence with its gap, "[MASK]", the candidates and the answer, each on a line.

    An .xml file has one question in each <schema>, as in the Winograd schema collections: its <text>, including the
    pronoun.

    A .jsonl file has one object on each line, with the question in "text", "sentence" or "question", or one string on
    each line.

    Args:
        paths: Paths of the files. A leading "~" is the home folder.

    Raises:
        InputError: If a file has another extension, cannot be read or contains no question.
    """
    questions: list[Question] = []
    for path in sorted(map(Path, paths), key=lambda path: (path.name, str(path))):
        if path.suffix.lower() not in ENDINGS:
            raise InputError(f"selection.questions: {path} has none of the endings {', '.join(ENDINGS)}: convert it.")
        try:
            texts = list(_READERS[path.suffix.lower()](path.expanduser()))
        except FileNotFoundError as error:
            raise InputError(
                f"selection.questions: there is no {path}. Paths are relative to the recipe's folder."
            ) from error
        except InputError:
            raise
        except (OSError, ValueError, LookupError, RecursionError, ElementTree.ParseError) as error:
            raise InputError(f"selection.questions: {path} cannot be read: {error}. Get it again, in UTF-8.") from error
        pieces = [tuple(piece for piece in to_nfc(text).split(GAP) if split_words(piece)) for text in texts]
        if not any(pieces):
            raise InputError(f"selection.questions: {path} holds no question. Name another file, or leave it out.")
        questions += filter(None, pieces)
    return questions


def _read_lines(path: Path) -> Iterator[str]:
    """Return only the sentences with a gap if the file has the WSC273 format, otherwise all lines that are not blank.

    Raises:
        OSError, ValueError: If the file cannot be read or is not UTF-8.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    marks = [number for number, line in enumerate(lines) if line.strip() == GAP]
    return (lines[number - 1] for number in marks if number) if marks else (line for line in lines if line.strip())


def _read_schemas(path: Path) -> Iterator[str]:
    """Return the text inside each <schema> element of an XML file, in order.

    Raises:
        OSError, ElementTree.ParseError: If the file cannot be read or is not XML.
    """
    root = ElementTree.fromstring(path.read_bytes())
    return (
        " ".join(part for text in schema.iter("text") for part in text.itertext()) for schema in root.iter("schema")
    )


def _read_objects(path: Path) -> Iterator[str]:
    """Yield the question on each line of a JSON Lines file. Blank lines are skipped.

    Raises:
        InputError: If a line contains no question.
        OSError, ValueError: If the file cannot be read or a line is not valid.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            yield _find_question(json.loads(line), path, number)


def _find_question(record: Any, path: Path, number: int) -> str:
    """Return the text of a question from its record: a string, or an object with the field "text", "sentence" or
    "question".

    Args:
        record: The record, as parsed from JSON.
        path: Path of the file, for the error message.
        number: One-based number of the line, for the error message.

    Raises:
        InputError: If the record has no such text.
    """
    values = [record] if isinstance(record, str) else []
    if isinstance(record, dict):
        values = [record[name] for name in ("text", "sentence", "question") if isinstance(record.get(name), str)]
    if not values:
        raise InputError(
            f'selection.questions: line {number} of {path} has no "text", "sentence" or "question" that is a text. '
            f"Name the field that holds the question so."
        )
    return str(values[0])


_READERS = {".txt": _read_lines, ".xml": _read_schemas, ".jsonl": _read_objects}


# The index.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionIndex:
    """The n-grams of all questions, by hash. Build it with `index_questions`.

    keys:   hashes of the distinct n-grams of one to four words, in ascending order
    slots:  the hash table that `find_key` searches
    counts: number of occurrences of each n-gram in the questions
    totals: number of n-grams of 1, 2, 3 and 4 words in the questions
    digest: fingerprint of everything that affects a score
    """

    keys: UInt64s
    slots: Int32s
    counts: Int64s
    totals: Int64s
    digest: str


def index_questions(questions: Sequence[Question]) -> QuestionIndex:
    """Index the n-grams of questions by their hashes. The order of the questions does not matter."""
    bags = _count_ngrams(tuple(questions))
    counts = {hash_ngram(run): count for bag in bags for run, count in bag.items()}
    keys = np.array(sorted(counts), np.uint64)
    index = QuestionIndex(
        keys=keys,
        slots=make_slots(keys),
        counts=np.array([counts[key] for key in keys.tolist()], np.int64),
        totals=np.array([bag.total() for bag in bags], np.int64),
        digest=_compute_digest(questions),
    )
    for array in (index.keys, index.counts, index.totals):
        array.flags.writeable = False
    return index


def _compute_digest(questions: Sequence[Question]) -> str:
    """Compute the SHA-256 (hex) of the words of all questions, regardless of their order."""
    folded = sorted(json.dumps([split_words(piece) for piece in question]) for question in questions)
    return hashlib.sha256("\n".join([str(WORDS_VERSION), *folded]).encode()).hexdigest()


@lru_cache(maxsize=4)
def _count_ngrams(questions: tuple[Question, ...]) -> tuple[Counter[tuple[str, ...]], ...]:
    """Count the n-grams of all questions. Return one counter for each length from one to four words.

    The keys of a counter are tuples of folded words. The result is cached.
    """
    pieces = [split_words(piece) for question in questions for piece in question]
    return tuple(
        Counter(run for piece in pieces for run in _iter_runs(piece, n)) for n in range(1, MAX_NGRAM_WORDS + 1)
    )


def _iter_runs(folded: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(folded[at : at + n]) for at in range(len(folded) - n + 1))


# The score.


def score_text(text: str, questions: Sequence[Question]) -> int:
    """Score one text by its overlap with the questions, in millionths (0 to 1,000,000).

    This is the reference implementation of `score_documents`, for tests.

    >>> questions = [("The trophy does not fit because", "is too big")]
    >>> score_text("“Too big!” he said.", questions), score_text("Nothing shared.", questions)
    (70769, 0)
    """
    folded, weighted = split_words(text), 0
    for n, theirs in enumerate(_count_ngrams(tuple(questions)), 1):
        mine = Counter(_iter_runs(folded, n))
        shared = (mine & theirs).total()
        weighted += n * (2 * MAX_SCORE * shared // max(mine.total() + theirs.total(), 1))
    return weighted // sum(range(1, MAX_NGRAM_WORDS + 1))


def score_documents(texts: pa.Array, index: QuestionIndex) -> Int32s:
    """Score each row of a large_string column without nulls, as `score_text` does.

    Args:
        texts: The documents, one in each row.
        index: The questions that the documents are compared with.

    Returns:
        The score of each row (int32), in millionths.

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    values = np.zeros(len(texts), np.int32)
    _score_rows(data, offsets, index.keys, index.slots, index.counts, index.totals, read_word_tables(), values)
    return values


@kernel
def _score_rows(
    data: Bytes,
    offsets: Int64s,
    keys: UInt64s,
    slots: Int32s,
    counts: Int64s,
    totals: Int64s,
    tables: WordTables,
    out: Int32s,
) -> None:
    """Compute the score of each row, in millionths, and write it to `out`.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        keys, slots, counts, totals: The fields of `QuestionIndex`.
        tables: Lookup tables, from `read_word_tables`.
        out: int32 [n], filled with the scores.
    """
    hashes, left, used = np.empty(compute_max_words(offsets), np.uint64), counts.copy(), np.empty(keys.size, np.int64)
    shared = np.zeros(MAX_NGRAM_WORDS, np.int64)
    for row in range(offsets.size - 1):
        num_words = hash_words(data, offsets[row], offsets[row + 1], tables, hashes)
        shared[:] = 0
        num_used = _count_shared(hashes[:num_words], keys, slots, counts, left, used, shared)
        for at in range(num_used):
            left[used[at]] = counts[used[at]]
        weighted = 0
        for n in range(1, MAX_NGRAM_WORDS + 1):
            of_both = max(num_words - n + 1, 0) + totals[n - 1]
            weighted += n * (2 * MAX_SCORE * shared[n - 1] // max(of_both, 1))
        out[row] = weighted // (MAX_NGRAM_WORDS * (MAX_NGRAM_WORDS + 1) // 2)


@kernel
def _count_shared(
    hashes: UInt64s, keys: UInt64s, slots: Int32s, counts: Int64s, left: Int64s, used: Int64s, shared: Int64s
) -> int:
    """Count the n-grams that a document shares with the questions, and add them to `shared`.

    Args:
        hashes: uint64, the hash of each word of the document.
        keys, slots, counts: The fields of `QuestionIndex`.
        left: int64, how often each n-gram may still be counted. Decremented for each n-gram that is counted.
        used: int64, filled with the indices of the entries of `left` that were decremented.
        shared: int64 [4], the number of shared n-grams of 1, 2, 3 and 4 words.

    Returns:
        The number of entries of `left` that were decremented.
    """
    num_used = 0
    for last in range(hashes.size):
        value, factor = np.uint64(0), np.uint64(1)
        for n in range(min(MAX_NGRAM_WORDS, last + 1)):
            value += hashes[last - n] * factor
            factor *= SHINGLE_FACTOR
            place = find_key(finish(value), keys, slots)
            if place < 0:
                break  # so no longer run that ends here is one of the questions' either
            if left[place] > 0:
                if left[place] == counts[place]:
                    used[num_used] = place
                    num_used += 1
                left[place] -= 1
                shared[n] += 1
    return num_used


# The cut.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """The number of documents by score: the scores that occur, in ascending order, and the number for each score."""

    scores: Int64s
    counts: Int64s


class ScoreCut(NamedTuple):
    """The minimum score for keeping a document.

    threshold: the minimum score
    kept:      number of documents kept
    total:     number of all documents
    tied:      number of documents with a score equal to the threshold
    """

    threshold: int
    kept: int
    total: int
    tied: int


def build_histogram(row_scores: Int32s) -> Histogram:
    """Build the histogram of the scores of some documents, one int32 for each document."""
    values, counts = np.unique(row_scores, return_counts=True)
    return Histogram(scores=values.astype(np.int64), counts=counts.astype(np.int64))


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Merge the histograms of different documents into one histogram of all of them. Their order does not matter."""
    counts = np.zeros(MAX_SCORE + 1, np.int64)
    for each in histograms:
        counts[each.scores] += each.counts
    values = np.flatnonzero(counts)
    return Histogram(scores=values, counts=counts[values])


def find_cut(histograms: Iterable[Histogram], share: float) -> ScoreCut:
    """Find the highest threshold that keeps at least a share of all documents.

    Documents tied at the threshold are all kept, so more may be kept. Documents without overlap with the questions
    (score 0) are never kept, so fewer may be kept.

    Args:
        histograms: The score histograms of several groups of documents, which are added up.
        share: The share of all documents to keep, from 0 to 1.

    >>> find_cut([build_histogram(np.array([5, 0, 7, 5, 0], np.int32))], 0.4)
    ScoreCut(threshold=5, kept=3, total=5, tied=2)
    """
    whole = merge_histograms(histograms)
    total = int(whole.counts.sum())
    wanted = math.ceil(Fraction(str(share)) * total)
    shared = whole.scores > 0
    values, at_least = whole.scores[shared][::-1], np.cumsum(whole.counts[shared][::-1])
    if not values.size:
        return ScoreCut(threshold=1, kept=0, total=total, tied=0)
    place = min(int(np.searchsorted(at_least, max(wanted, 1))), values.size - 1)
    tied = int(whole.counts[shared][::-1][place])
    return ScoreCut(threshold=int(values[place]), kept=int(at_least[place]), total=total, tied=tied)
