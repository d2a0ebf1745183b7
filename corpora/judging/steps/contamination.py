"""Contamination: documents that share a run of words with an item of an evaluation set.

A document matches an item if n words of the item are in it in a row (13, as Brown et al. 2020, appendix C, compare),
however they are wrapped, capitalized or punctuated (see `corpora.text.words`). An item of fewer words is matched only
as a whole, and only if it has `min_words`. Items that are even shorter occur by chance in any large corpus. They are
not searched for, and `EvaluationIndex.num_unmatched` counts them.

Promise: `find_evaluation_matches` equals `find_evaluation_match`, the definition, row by row; a hit of two hashes is
compared word by word, so every reported document contains the words (one is missed by chance with probability 2**-64).
The result depends on the items and the texts, not on the order or location of files.

An apostrophe separates two words, so "I don't know how to do it" has eight words and, as an item, matches every novel
in which somebody says so: of 91 books, five match such sentences of CoLA, and none matches a longer item. A higher
`min_words` excludes them. A Chinese or Japanese character is a word: let `n` be larger there.

Cost: 100 MB a second for a column. The index is built at 2.6 MB a second; it holds the items' text and some 40 bytes
for each of their words, and is pickled for workers.

Evaluation sets: their files, read as numbered texts.

Promises: every text of a file, or of the fields that are named, is read, in order and in NFC; of SQuAD's form that is
every context and question, or the fields of these that are named. A file that cannot be read is refused with an
InputError. Lists and objects inside a record are searched to the bottom. Cost: that of the format's reader; a `.json`
is held in memory whole, of Parquet 4,096 rows, of the others a record at a time.
"""

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Bools, Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.sources.files.parquet import iter_all_batches, open_parquet
from corpora.store.settings import check_range
from corpora.text.buffers import to_text_buffers
from corpora.text.ngrams import find_key, hash_ngram, hash_ngrams, hash_runs, make_slots
from corpora.text.normal_form import to_nfc
from corpora.text.word_kernels import compute_max_words, hash_words, skip_words
from corpora.text.words import WORDS_VERSION, WordTables, read_word_tables, split_words

ENDINGS = (".txt", ".jsonl", ".ndjson", ".json", ".tsv", ".csv", ".parquet")
_BATCH_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """One file of evaluation items.

    path:   a .txt file (one item per line), .jsonl, .json (SQuAD's format, or a list of objects), .tsv, .csv or
            .parquet
    name:   name of the set in reports; if empty, the name of the file
    fields: the fields or columns to compare; if empty, all that contain text. In a table without a heading, columns are
            named by number, from "1"
    """

    path: str
    name: str = ""
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.path.lower().endswith(ENDINGS):
            raise InputError(
                f"contamination.sets: {self.path!r} has none of the endings {', '.join(ENDINGS)}, by which its form "
                f"is known: rename or convert it."
            )
        if self.fields and self.path.lower().endswith(".txt"):
            raise InputError(f"contamination.sets: {self.path!r} is plain text, where no field has a name: drop them.")

    @property
    def title(self) -> str:
        """The name of the set in reports: `name`, or the file's name if `name` is empty."""
        return self.name or Path(self.path).name


class Item(NamedTuple):
    """A text of an evaluation set.

    `number` is the one-based line, row or record number. A record may have several texts.
    """

    set: str
    number: int
    text: str


def read_items(group: EvaluationSet) -> Iterator[Item]:
    """Yield the texts of an evaluation set in order, normalized to NFC.

    Raises:
        InputError: During iteration, if the file cannot be read or lacks a field. The message names the set's path.
    """
    path = Path(group.path).expanduser()
    try:
        for number, text in _READERS[path.suffix.lower()](path, group.fields):
            text.encode()  # half a character, which JSON can escape, is refused here
            yield Item(group.title, number, to_nfc(text))
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"contamination.sets: there is no {group.path}. Paths are relative to the recipe's folder."
        ) from error
    except (OSError, ValueError, RecursionError, csv.Error, pa.ArrowException) as error:
        raise InputError(
            f"contamination.sets: {group.path} cannot be read as {path.suffix.lower()} in UTF-8: {error}. "
            f"Get it again, or convert it."
        ) from error


_NumberedTexts = Iterator[tuple[int, str]]


def _read_text_lines(path: Path, fields: Sequence[str]) -> _NumberedTexts:
    """Yield each line of a text file that is not blank, with its one-based number. `fields` is not used.

    Raises:
        OSError, ValueError: If the file cannot be read or is not UTF-8.
    """
    with path.open(encoding="utf-8-sig") as stream:
        yield from ((number, line) for number, line in enumerate(stream, 1) if line.strip())


def _read_json_lines(path: Path, fields: Sequence[str]) -> _NumberedTexts:
    """Yield the strings in the JSON object on each line, with the one-based line number.

    Args:
        path: The file.
        fields: Names of the fields to read; empty for all strings in an object.

    Raises:
        InputError: If a named field is missing.
        OSError, ValueError: If the file cannot be read or a line is not valid.
    """
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield from ((number, text) for text in _iter_strings(json.loads(line), fields, path, number))


def _read_json_file(path: Path, fields: Sequence[str]) -> _NumberedTexts:
    """Yield the contexts and questions of a SQuAD file, or the strings of each object in a list, with one-based
    numbers.

    Args:
        path: The file.
        fields: Names of the fields to read; empty for contexts and questions, or for all strings.

    Raises:
        InputError: If the file contains no list of records, or a named field is missing.
        OSError, ValueError: If the file cannot be read or is not valid.
    """
    data = json.loads(path.read_text(encoding="utf-8-sig"))
    records = data.get("data") if isinstance(data, dict) else data
    if not isinstance(records, list):
        raise InputError(f"contamination.sets: {path} holds no list of records. Convert it to .jsonl.")
    questions = [question for article in records if _is_article(article) for question in _iter_squad_records(article)]
    if not questions:
        for number, record in enumerate(records, 1):
            yield from ((number, text) for text in _iter_strings(record, fields, path, number))
    for number, question in enumerate(questions, 1):
        wanted = [name for name in fields or ("context", "question") if name in question]
        yield from ((number, text) for name in wanted for text in _iter_strings(question[name], (), path, number))


def _is_article(record: Any) -> bool:
    """Return True if a record is a SQuAD article: an object with a list "paragraphs"."""
    return isinstance(record, dict) and isinstance(record.get("paragraphs"), list)


def _iter_squad_records(article: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each context of a SQuAD article, as an object {"context": ...}, followed by its question objects.

    Raises:
        ValueError: If the article has another format.
    """
    for paragraph in article["paragraphs"]:
        if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas", []), list):
            raise ValueError("a paragraph is no object with a list of questions")
        yield {"context": paragraph.get("context", "")}
        yield from (question for question in paragraph.get("qas", []) if isinstance(question, dict))


def _iter_strings(value: Any, fields: Sequence[str], path: Path, number: int) -> Iterator[str]:
    """Yield the strings of the named fields of a record, or all strings in it, including nested ones.

    Args:
        value: The record, as parsed from JSON.
        fields: Names of the fields to read; empty for all.
        path: Path of the file, for the error message.
        number: One-based number of the line or record, for the error message.

    Raises:
        InputError: If a named field is missing.
    """
    if fields:
        missing = [name for name in fields if not isinstance(value, dict) or name not in value]
        if missing:
            names = ", ".join(value) if isinstance(value, dict) else "none, for it is no object"
            raise InputError(f"contamination.sets: record {number} of {path} has no {missing[0]!r}; it has: {names}.")
        value = [value[name] for name in fields]
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _iter_strings(part, (), path, number)


def _read_table_rows(path: Path, fields: Sequence[str]) -> _NumberedTexts:
    """Yield the named columns of each row of a .csv or .tsv file, with the one-based row number.

    Quotes in .tsv files are literal, as in GLUE. A first row that contains a wanted name is a heading and is not
    yielded.

    Args:
        path: The file.
        fields: Names of columns, or one-based numbers as strings; empty for all columns.

    Raises:
        InputError: If a column is missing.
        OSError, ValueError, csv.Error: If the file cannot be read or is not valid.
    """
    with path.open(encoding="utf-8-sig", newline="") as stream:
        tabs = path.suffix.lower() == ".tsv"
        rows = (line.rstrip("\r\n").split("\t") for line in stream) if tabs else csv.reader(stream, strict=True)
        places: list[int] | None = None
        for number, row in enumerate(rows, 1):
            heading = places is None and any(name in row for name in fields)
            if places is None:
                places = _find_columns(row, fields, path)
            if row and places and max(places) >= len(row):
                raise InputError(f"contamination.sets: row {number} of {path} has {len(row)} columns only. Fix it.")
            if row and not heading:
                yield from ((number, row[place]) for place in places or range(len(row)))


def _find_columns(heading: list[str], fields: Sequence[str], path: Path) -> list[int]:
    """Return the zero-based indices of the named columns. The result is empty if `fields` is empty.

    Args:
        heading: The first row of the table.
        fields: Names of columns, or one-based numbers as strings.
        path: Path of the table, for the error message.

    Raises:
        InputError: If a named column is missing.
    """
    for name in fields:
        if name not in heading and not (name.isdecimal() and 0 < int(name) <= len(heading)):
            raise InputError(
                f"contamination.sets: {path} has no column {name!r}; its first line has: {', '.join(heading)}. "
                f"Name one of these, or a column by number, such as '1'."
            )
    return [heading.index(name) if name in heading else int(name) - 1 for name in fields]


def _read_parquet_rows(path: Path, fields: Sequence[str]) -> _NumberedTexts:
    """Yield the strings in the columns of each row of a Parquet file, with the one-based row number.

    Strings in lists and structs are included.

    Args:
        path: The file.
        fields: Names of the columns to read; empty for all columns.

    Raises:
        InputError: If a column is missing.
        OSError, pyarrow.ArrowException: If the file cannot be read.
    """
    with path.open("rb"), open_parquet(path) as table:
        batches = iter_all_batches(table, path, _BATCH_ROWS)
        for number, record in enumerate((record for batch in batches for record in batch.to_pylist()), 1):
            yield from ((number, text) for text in _iter_strings(record, fields, path, number))


_READERS = {
    ".txt": _read_text_lines,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json_file,
    ".tsv": _read_table_rows,
    ".csv": _read_table_rows,
    ".parquet": _read_parquet_rows,
}


_CHUNK_ITEMS = 4096  # hashed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationSettings:
    """Settings for comparing documents with evaluation sets. Without sets, the step is off.

    sets:      files of evaluation items, each a path or a table
    n:         a document matches an item if both contain the same run of this many words
    min_words: an item with fewer than n words is matched as a whole, if it has at least this many words
    max_items: a run of words that more items than this contain is a common phrase ("which of the following ...") and is
               ignored; 0: no run is ignored
    drop:      true drops documents that match an item; false only reports them
    """

    sets: tuple[EvaluationSet, ...] = ()
    n: int = 13
    min_words: int = 8
    max_items: int = 0
    drop: bool = True

    def __post_init__(self) -> None:
        check_range("contamination.n", self.n, 2, 100)
        check_range("contamination.min_words", self.min_words, 2, self.n)
        check_range("contamination.max_items", self.max_items, 0, 1 << 31)
        titles = [group.title for group in self.sets]
        for title in titles:
            if titles.count(title) > 1:
                raise InputError(f"contamination.sets: two sets are called {title!r}: give each a `name` of its own.")

    def to_json(self) -> dict[str, Json]:
        """Return the settings that affect the output, for fingerprints.

        The keys are those of the recipe. The evaluation items are not included; `collect_settings` adds the digest of
        their index.
        """
        sets: list[Json] = [[group.title, *group.fields] for group in self.sets]
        return {"sets": sets, "n": self.n, "min_words": self.min_words, "max_items": self.max_items, "drop": self.drop}


class EvaluationMatch(NamedTuple):
    """The first run of words in a document that it shares with an evaluation item.

    row:   index of the document in its column
    set:   title of the evaluation set
    item:  number of the item in its file
    words: the shared words, case-folded, separated by single spaces
    """

    row: int
    set: str
    item: int
    words: str

    @property
    def detail(self) -> str:
        """The text that is stored as the detail of a dropped document, such as "SQuAD, item 12: the shared words"."""
        return f"{self.set}, item {self.item}: {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunTable:
    """A hash table of the runs of `length` words in evaluation items.

    keys:   the distinct hashes, in ascending order
    slots:  the hash table that `find_key` searches
    starts: n + 1 offsets; the items that contain run i are items[starts[i]:starts[i + 1]]
    items:  indices into `EvaluationIndex.items`
    """

    length: int
    keys: UInt64s
    slots: Int32s
    starts: Int64s
    items: Int64s

    def find_items(self, run: Sequence[str]) -> list[int]:
        """Return the indices of the items that contain a run with this hash, in order.

        Because of hash collisions, a returned item may contain a different run.
        """
        place = find_key(np.uint64(hash_ngram(run)), self.keys, self.slots)
        return [] if place < 0 else self.items[self.starts[place] : self.starts[place + 1]].tolist()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluationIndex:
    """Evaluation items, indexed for comparison with documents. Build it with `build_index`.

    items:         the items to look for; of items with equal words only the first
    long_runs:     the runs of n words of items with at least n words, each with the first item that contains it
    short_runs:    the first `min_words` words of each shorter item
    max_items:     as in the settings
    num_texts:     number of texts read
    num_unmatched: number of texts with fewer than `min_words` words, which are not looked for
    num_repeated:  number of texts with the same words as an earlier one
    num_common:    number of runs omitted because they occur in more than `max_items` items
    digest:        fingerprint of everything that affects the matches
    """

    items: tuple[Item, ...]
    long_runs: RunTable
    short_runs: RunTable
    max_items: int
    num_texts: int
    num_unmatched: int
    num_repeated: int
    num_common: int
    digest: str


# The index.


def build_index(settings: ContaminationSettings) -> EvaluationIndex:
    """Read all evaluation sets and index their items.

    Raises:
        InputError: If a set cannot be read or contains no text.
    """
    items: list[Item] = []
    for group in sorted(settings.sets, key=lambda group: group.title):
        before = len(items)
        items.extend(read_items(group))
        if len(items) == before:
            raise InputError(f"contamination.sets: {group.path} holds no text. Name another file, or drop the set.")
    return index_items(items, settings)


def index_items(candidates: Sequence[Item], settings: ContaminationSettings) -> EvaluationIndex:
    """Index evaluation items that have already been read.

    Args:
        candidates: The items, indexed in this order. Repeated items and items with too few words are only counted.
        settings: The settings with `n`, `min_words` and `max_items`.
    """
    items: list[Item] = []
    long_places: list[int] = []
    short_places: list[int] = []
    seen: set[bytes] = set()
    unmatched = 0
    for item, hashes in zip(candidates, _hash_items(candidates, 1), strict=True):
        key = hashlib.blake2b(hashes.tobytes(), digest_size=16).digest()
        if hashes.size < settings.min_words:
            unmatched += 1
        elif key not in seen:
            seen.add(key)
            (short_places if hashes.size < settings.n else long_places).append(len(items))
            items.append(item)
    long, common = _build_long_runs(items, long_places, settings)
    return EvaluationIndex(
        items=tuple(items),
        long_runs=long,
        short_runs=_build_short_runs(items, short_places, settings),
        max_items=settings.max_items,
        num_texts=len(candidates),
        num_unmatched=unmatched,
        num_repeated=len(candidates) - unmatched - len(items),
        num_common=common,
        digest=_compute_digest(items, settings),
    )


def _hash_items(items: Sequence[Item], n: int) -> Iterator[UInt64s]:
    """Yield one uint64 array per item: the hashes of its runs of `n` words, in order."""
    for at in range(0, len(items), _CHUNK_ITEMS):
        texts = pa.array([item.text for item in items[at : at + _CHUNK_ITEMS]], pa.large_string())
        hashes, offsets = hash_ngrams(texts, n)
        yield from np.split(hashes, offsets[1:-1])


def _build_long_runs(
    items: Sequence[Item], places: Sequence[int], settings: ContaminationSettings
) -> tuple[RunTable, int]:
    """Build the table of all runs of n words, each with its first item.

    Args:
        items: All items of the index.
        places: Indices in `items` of the items with at least n words.
        settings: The settings with `n` and `max_items`.

    Returns:
        The table, and the number of runs that are omitted because too many items contain them.
    """
    rows = [np.unique(hashes) for hashes in _hash_items([items[place] for place in places], settings.n)]
    hashes = np.concatenate([np.empty(0, np.uint64), *rows])
    owners = np.repeat(np.array(places, np.int64), np.array([row.size for row in rows], np.int64))
    order = np.argsort(hashes, kind="stable")
    keys, firsts, counts = np.unique(hashes[order], return_index=True, return_counts=True)
    kept = counts <= (settings.max_items or len(items))
    return _build_run_table(settings.n, keys[kept], owners[order][firsts][kept]), int((~kept).sum())


def _build_short_runs(items: Sequence[Item], places: Sequence[int], settings: ContaminationSettings) -> RunTable:
    """Build the table of the first `min_words` words of each item in `places` (indices into `items`)."""
    rows = _hash_items([items[place] for place in places], settings.min_words)
    hashes = np.array([row[0] for row in rows], np.uint64)
    order = np.argsort(hashes, kind="stable")
    return _build_run_table(settings.min_words, hashes[order], np.array(places, np.int64)[order])


def _build_run_table(length: int, hashes: UInt64s, items: Int64s) -> RunTable:
    """Build a table of runs of `length` words.

    Args:
        length: Number of words in a run.
        hashes: uint64, the hash of each run, ascending. It is repeated if several items contain the run.
        items: int64, the index of each hash's item. The array is made read-only.
    """
    keys, starts = np.unique(hashes, return_index=True)
    starts = np.append(starts, hashes.size).astype(np.int64)
    for array in (keys, starts, items):
        array.flags.writeable = False
    return RunTable(length=length, keys=keys, slots=make_slots(keys), starts=starts, items=items)


def _compute_digest(items: Sequence[Item], settings: ContaminationSettings) -> str:
    """Compute the SHA-256 (hex) of all settings and items that affect the matches and how they are reported."""
    digest = hashlib.sha256(json.dumps([WORDS_VERSION, settings.n, settings.min_words, settings.max_items]).encode())
    for item in items:
        digest.update(json.dumps(item).encode() + b"\n")
    return digest.hexdigest()


# Meeting.


def find_evaluation_match(text: str, index: EvaluationIndex) -> tuple[Item, str] | None:
    """Find the first evaluation item that shares a run of words with one text.

    This is the reference implementation of `find_evaluation_matches`, for tests. Runs of n words take precedence over
    short items. If several runs match, the first one in the text is returned, and if several items contain it, the
    first one in the index.

    Returns:
        The item and the shared words, or None if there is no match.
    """
    text_words, n = split_words(text), index.long_runs.length
    item_texts = [" ".join(["", *split_words(item.text), ""]) for item in index.items]
    for at in range(len(text_words) - n + 1):
        run = " ".join(text_words[at : at + n])
        holders = [item for item, item_text in zip(index.items, item_texts, strict=True) if f" {run} " in item_text]
        if holders and len(holders) <= (index.max_items or len(holders)):
            return holders[0], run
    for at in range(len(text_words)):
        for item, item_text in zip(index.items, item_texts, strict=True):
            whole = item_text.split()
            if len(whole) < n and text_words[at : at + len(whole)] == whole:
                return item, " ".join(whole)
    return None


def find_evaluation_matches(texts: pa.Array, index: EvaluationIndex) -> list[EvaluationMatch | None]:
    """Find the first match in each row of a large_string column without nulls.

    Args:
        texts: The documents, one in each row.
        index: The evaluation items to find.

    Returns:
        The match of each row as `find_evaluation_match` finds it, or None if there is none.

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    matches: list[EvaluationMatch | None] = [None] * len(texts)
    for runs in (index.long_runs, index.short_runs):
        if runs.keys.size:
            waiting = np.array([row for row, match in enumerate(matches) if match is None], np.int64)
            has_hit = _flag_rows_with_hits(
                data, offsets, waiting, runs.length, runs.keys, runs.slots, read_word_tables()
            )
            for row in waiting[has_hit].tolist():
                matches[row] = _find_first_match(data[offsets[row] : offsets[row + 1]], row, runs, index)
    return matches


def _find_first_match(text: Bytes, row: int, runs: RunTable, index: EvaluationIndex) -> EvaluationMatch | None:
    """Find the first match of a row by comparing its hash hits word by word.

    Args:
        text: The row in UTF-8.
        row: Index of the row, for the result.
        runs: The runs to look for, one of the two tables of `index`.
        index: The index.

    Returns:
        The match; None if there is no hit, or if all hits are hash collisions.
    """
    n, tables, begin, before = index.long_runs.length, read_word_tables(), 0, 0
    for hit in _find_hits(text, runs.length, runs.keys, runs.slots, tables).tolist():
        begin, before = skip_words(text, begin, text.size, hit - before, tables), hit
        folded = tuple(split_words(str(text[begin : skip_words(text, begin, text.size, n, tables)].data, "utf-8")))
        for place in runs.find_items(folded[: runs.length]):
            item = index.items[place]
            item_words = _split_item(item.text)
            run = folded if runs is index.long_runs else folded[: len(item_words)]
            if run == item_words or (len(run) == n and f" {' '.join(run)} " in f" {' '.join(item_words)} "):
                return EvaluationMatch(row=row, set=item.set, item=item.number, words=" ".join(run))
    return None


@lru_cache(maxsize=4096)
def _split_item(text: str) -> tuple[str, ...]:
    """Split the text of an item into folded words.

    The result is cached, because an item that matches once often matches again.
    """
    return tuple(split_words(text))


@kernel
def _flag_rows_with_hits(
    data: Bytes,
    offsets: Int64s,
    rows: Int64s,
    n: int,
    keys: UInt64s,
    slots: Int32s,
    tables: WordTables,
) -> Bools:
    """Return a boolean for each of the given rows: True if the hash of a run of n words is in `keys`.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [rows + 1], the first byte of each row in `data`.
        rows: int64, indices of the rows to check.
        n: Number of words in a run.
        keys: uint64, the hashes to look for.
        slots: Hash table of `keys`, from `make_slots`.
        tables: Lookup tables, from `read_word_tables`.
    """
    hit, hashes = np.zeros(rows.size, np.bool_), np.empty(compute_max_words(offsets), np.uint64)
    for place in range(rows.size):
        start, stop = offsets[rows[place]], offsets[rows[place] + 1]
        num_runs = hash_runs(hashes, hash_words(data, start, stop, tables, hashes), n)
        for at in range(num_runs):
            if find_key(hashes[at], keys, slots) >= 0:
                hit[place] = True
                break
    return hit


@kernel
def _find_hits(text: Bytes, n: int, keys: UInt64s, slots: Int32s, tables: WordTables) -> Int64s:
    """Return the index of the first word of each run of n words whose hash is in `keys`: int64, ascending.

    Args:
        text: One text in UTF-8.
        n: Number of words in a run.
        keys: uint64, the hashes to look for.
        slots: Hash table of `keys`, from `make_slots`.
        tables: Lookup tables, from `read_word_tables`.
    """
    hashes = np.empty((text.size + 1) // 2, np.uint64)
    num_runs = hash_runs(hashes, hash_words(text, 0, text.size, tables, hashes), n)
    hits, num_hits = np.empty(num_runs, np.int64), 0
    for at in range(num_runs):
        if find_key(hashes[at], keys, slots) >= 0:
            hits[num_hits] = at
            num_hits += 1
    return hits[:num_hits]
