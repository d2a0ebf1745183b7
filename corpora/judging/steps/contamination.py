"""Contamination: which documents hold a piece of an evaluation set, and of which item.

A document meets an item where n words of the item are in it in a row (13, as Brown et al. 2020, appendix C,
compare), however they are wrapped, capitalized or punctuated (see `corpora.text.words`). An item of fewer
words is met only as a whole, and only if it has `min_words`; one that is shorter still is met by chance in any
large corpus: it is not looked for, and `EvaluationIndex.unmatched` says how many there are of them.

Promise: `meet` equals `meet_text`, the definition, row by row; a hit of two hashes is compared word by word,
so no document is named that does not hold the words (one is missed by chance with probability 2**-64). What
comes out depends on the items and the texts, not on the order of files nor on where they are.

An apostrophe parts two words, so "I don't know how to do it" has eight of them and, as an item, meets every
novel in which somebody says so: of 91 books five meet such sentences of CoLA, and no item that is longer. A
higher `min_words` leaves them out. A Chinese or Japanese character is a word: let `n` be larger there.

Cost: 100 MB a second for a column. The index is built at 2.6 MB a second; it holds the items' text and some
40 bytes for each of their words, and is pickled for workers as it is.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.judging.steps.evaluation_sets import EvaluationSet, Item, read_items
from corpora.kernels.arrays import Bools, Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.settings import check_range
from corpora.text.buffers import text_buffers
from corpora.text.ngram_kernels import find, hash_ngrams, hash_runs, make_slots
from corpora.text.ngrams import ngram_hash
from corpora.text.word_kernels import behind_words, hash_words, most_words
from corpora.text.words import WORDS_VERSION, WordTables, word_tables, words

_CHUNK_ITEMS = 4096  # hashed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationSettings:
    """Settings for comparing documents with evaluation sets. Without sets the step is off.

    sets:      files of evaluation items, each a path or a table
    n:         so many words in a row, in a document and in an item, are a meeting
    min_words: an item of fewer than n words is looked for as a whole if it has at least so many
    max_items: a run of words that is in more different items than this is a form of words ("which of the
               following ...") and no meeting; 0 takes every run
    drop:      whether documents that meet an item are dropped, or only reported
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
        """Return what determines bytes, besides the items themselves: those enter by the digest of their index."""
        sets: list[Json] = [[group.title, *group.fields] for group in self.sets]
        return {"sets": sets, "n": self.n, "min_words": self.min_words, "max_items": self.max_items, "drop": self.drop}


class Meeting(NamedTuple):
    """The words that a document has in common with an item: the first such run in the document."""

    row: int
    set: str
    item: int
    words: str

    @property
    def detail(self) -> str:
        """The text that goes with the reason in the record of a dropped document."""
        return f"{self.set}, item {self.item}: {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Runs of `length` words by their hash.

    keys:   different hashes, ascending; slots: the table in which `find` looks for them
    begins: the items that hold the run of key i are items[begins[i]:begins[i + 1]], places in the index' items
    """

    length: int
    keys: UInt64s
    slots: Int32s
    begins: Int64s
    items: Int64s

    def holders(self, run: Sequence[str]) -> list[int]:
        """The items under the hash of a run, in order."""
        place = find(np.uint64(ngram_hash(run)), self.keys, self.slots)
        return [] if place < 0 else self.items[self.begins[place] : self.begins[place + 1]].tolist()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluationIndex:
    """Evaluation items, ready to be met; made by `build_index`.

    items:     different ones, the first of each; those that are not looked for are not among them
    long:      the runs of n words of the items that have so many, each with the first item that holds it
    short:     the first `min_words` words of every other item
    max_items: of the settings, for the definition
    num_texts: read; unmatched: those of fewer than `min_words` words; repeated: those whose words came before
    common:    runs left out because they are in more than `max_items` items
    digest:    of all that decides the meetings: what enters the fingerprint of a build that uses them
    """

    items: tuple[Item, ...]
    long: Runs
    short: Runs
    max_items: int
    num_texts: int
    unmatched: int
    repeated: int
    common: int
    digest: str


# The index.


def build_index(settings: ContaminationSettings) -> EvaluationIndex:
    """Read all sets and index their items. Raises InputError where a set cannot be read or holds no text."""
    items: list[Item] = []
    for group in sorted(settings.sets, key=lambda group: group.title):
        before = len(items)
        items.extend(read_items(group))
        if len(items) == before:
            raise InputError(f"contamination.sets: {group.path} holds no text. Name another file, or drop the set.")
    return index_items(items, settings)


def index_items(candidates: Sequence[Item], settings: ContaminationSettings) -> EvaluationIndex:
    """The index of items that were read before."""
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
    long, common = _long_runs(items, long_places, settings)
    return EvaluationIndex(
        items=tuple(items),
        long=long,
        short=_short_runs(items, short_places, settings),
        max_items=settings.max_items,
        num_texts=len(candidates),
        unmatched=unmatched,
        repeated=len(candidates) - unmatched - len(items),
        common=common,
        digest=_digest(items, settings),
    )


def _hash_items(items: Sequence[Item], n: int) -> Iterator[UInt64s]:
    """The hashes of the n-grams of every item."""
    for at in range(0, len(items), _CHUNK_ITEMS):
        texts = pa.array([item.text for item in items[at : at + _CHUNK_ITEMS]], pa.large_string())
        hashes, offsets = hash_ngrams(texts, n)
        yield from np.split(hashes, offsets[1:-1])


def _long_runs(items: Sequence[Item], places: Sequence[int], settings: ContaminationSettings) -> tuple[Runs, int]:
    """Every run of n words with the first item that holds it; and how many runs are too common."""
    rows = [np.unique(hashes) for hashes in _hash_items([items[place] for place in places], settings.n)]
    hashes = np.concatenate([np.empty(0, np.uint64), *rows])
    owners = np.repeat(np.array(places, np.int64), np.array([row.size for row in rows], np.int64))
    order = np.argsort(hashes, kind="stable")
    keys, firsts, counts = np.unique(hashes[order], return_index=True, return_counts=True)
    kept = counts <= (settings.max_items or len(items))
    return _runs(settings.n, keys[kept], owners[order][firsts][kept]), int((~kept).sum())


def _short_runs(items: Sequence[Item], places: Sequence[int], settings: ContaminationSettings) -> Runs:
    """The first `min_words` words of every item at `places`."""
    rows = _hash_items([items[place] for place in places], settings.min_words)
    hashes = np.array([row[0] for row in rows], np.uint64)
    order = np.argsort(hashes, kind="stable")
    return _runs(settings.min_words, hashes[order], np.array(places, np.int64)[order])


def _runs(length: int, hashes: UInt64s, items: Int64s) -> Runs:
    """Runs from hashes in ascending order and the item of each."""
    keys, begins = np.unique(hashes, return_index=True)
    begins = np.append(begins, hashes.size).astype(np.int64)
    for array in (keys, begins, items):
        array.flags.writeable = False
    return Runs(length=length, keys=keys, slots=make_slots(keys), begins=begins, items=items)


def _digest(items: Sequence[Item], settings: ContaminationSettings) -> str:
    """64 hex digits of the settings and items that decide the meetings, and of how they are reported."""
    digest = hashlib.sha256(json.dumps([WORDS_VERSION, settings.n, settings.min_words, settings.max_items]).encode())
    for item in items:
        digest.update(json.dumps(item).encode() + b"\n")
    return digest.hexdigest()


# Meeting.


def meet_text(text: str, index: EvaluationIndex) -> tuple[Item, str] | None:
    """The definition: the first item that a text meets, and the words they share.

    Runs of n words come first, then short items; of several, the first in the text; of several items that
    hold it, the first in the index.
    """
    text_words, n = words(text), index.long.length
    spoken = [" ".join(["", *words(item.text), ""]) for item in index.items]
    for at in range(len(text_words) - n + 1):
        run = " ".join(text_words[at : at + n])
        holders = [item for item, item_text in zip(index.items, spoken, strict=True) if f" {run} " in item_text]
        if holders and len(holders) <= (index.max_items or len(holders)):
            return holders[0], run
    for at in range(len(text_words)):
        for item, item_text in zip(index.items, spoken, strict=True):
            whole = item_text.split()
            if len(whole) < n and text_words[at : at + len(whole)] == whole:
                return item, " ".join(whole)
    return None


def meet(texts: pa.Array, index: EvaluationIndex) -> list[Meeting | None]:
    """The first meeting of every row of a large_string column without nulls: `meet_text`, or None.

    Raises InputError for another type of column or for nulls.
    """
    data, offsets = text_buffers(texts)
    met: list[Meeting | None] = [None] * len(texts)
    for runs in (index.long, index.short):
        if runs.keys.size:
            waiting = np.array([row for row, meeting in enumerate(met) if meeting is None], np.int64)
            hit = _rows_with_hits(data, offsets, waiting, runs.length, runs.keys, runs.slots, word_tables())
            for row in waiting[hit].tolist():
                met[row] = _first_meeting(data[offsets[row] : offsets[row + 1]], row, runs, index)
    return met


def _first_meeting(text: Bytes, row: int, runs: Runs, index: EvaluationIndex) -> Meeting | None:
    """The first meeting of a row: its hits of hashes are compared word by word."""
    n, tables, begin, before = index.long.length, word_tables(), 0, 0
    for hit in _hits(text, runs.length, runs.keys, runs.slots, tables).tolist():
        begin, before = behind_words(text, begin, text.size, hit - before, tables), hit
        spoken = tuple(words(str(text[begin : behind_words(text, begin, text.size, n, tables)].data, "utf-8")))
        for place in runs.holders(spoken[: runs.length]):
            item = index.items[place]
            wanted = _item_words(item.text)
            run = spoken if runs is index.long else spoken[: len(wanted)]
            if run == wanted or (len(run) == n and _stands_in(run, wanted)):
                return Meeting(row=row, set=item.set, item=item.number, words=" ".join(run))
    return None


@lru_cache(maxsize=4096)
def _item_words(text: str) -> tuple[str, ...]:
    """The words of an item: one that is met is mostly met again."""
    return tuple(words(text))


def _stands_in(run: Sequence[str], text: Sequence[str]) -> bool:
    """Return True if words occur in others in a row."""
    return f" {' '.join(run)} " in f" {' '.join(text)} "


@kernel
def _rows_with_hits(
    data: Bytes,
    offsets: Int64s,
    rows: Int64s,
    n: int,
    keys: UInt64s,
    slots: Int32s,
    tables: WordTables,
) -> Bools:
    """Return which of the rows hold a run of n words whose hash is among the keys."""
    hit, hashes = np.zeros(rows.size, np.bool_), np.empty(most_words(offsets), np.uint64)
    for place in range(rows.size):
        start, stop = offsets[rows[place]], offsets[rows[place] + 1]
        num_runs = hash_runs(hashes, hash_words(data, start, stop, tables, hashes), n)
        for at in range(num_runs):
            if find(hashes[at], keys, slots) >= 0:
                hit[place] = True
                break
    return hit


@kernel
def _hits(text: Bytes, n: int, keys: UInt64s, slots: Int32s, tables: WordTables) -> Int64s:
    """The places, counted in words, of all runs of n words whose hash is among the keys."""
    hashes = np.empty((text.size + 1) // 2, np.uint64)
    num_runs = hash_runs(hashes, hash_words(text, 0, text.size, tables, hashes), n)
    hits, num_hits = np.empty(num_runs, np.int64), 0
    for at in range(num_runs):
        if find(hashes[at], keys, slots) >= 0:
            hits[num_hits] = at
            num_hits += 1
    return hits[:num_hits]
