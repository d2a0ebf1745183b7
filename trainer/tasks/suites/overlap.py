"""Overlap of a split's items with the documents that a model was pre-trained on, as a share next to its score.

An item is met where one of its texts shares `n` words in a row with a document (13, as Brown et al. 2020, appendix C,
compare), or is in it as a whole where it has 8 to 12; one whose texts are all shorter is met by chance in any large
corpus and is not looked for: their number is reported. The rule of a match is `corpora.judging.steps.contamination`'s
alone. That step names for a document the first item that it meets; here every item is asked for, so the two change
places: documents that meet anything become items, and the texts are looked up in these.

Cost: the corpus is read once, at 100 MB a second; documents that meet something are indexed at 2.6 MB a second.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.judging.steps.contamination import ContaminationSettings, EvaluationIndex, index_items, meet
from corpora.judging.steps.evaluation_sets import Item
from corpora.kernels.arrays import Bools, Int64s
from corpora.text.normal_form import nfc
from corpora.text.words import words
from trainer.tasks.contract import Task
from trainer.tasks.data import enough_together, roles_of, with_format
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts

COMPARED = ContaminationSettings()
AT_ONCE = 1 << 23  # characters of documents that are indexed together
WORDS = "words"  # the role whose value is one text, cut into words
SPLIT_NOT = re.compile(r" (n['\u2019]t)\b", re.IGNORECASE)  # as treebanks cut "don't": elsewhere they cut after words


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusOverlap:
    """Items of a split, those long enough to be looked for, and those of them that were met."""

    items: int
    sought: int
    met: int

    @property
    def share(self) -> float | None:
        """The share of those that were looked for; None where none was."""
        return self.met / self.sought if self.sought else None


def item_texts(task: Task, file: FileSettings) -> list[list[str]]:
    """Return for each record of a file the texts that a model reads; what is learnt is not among them."""
    needed, optional = roles_of(task, labelled=False)
    lenient = replace(with_format(task, file), max_unusable=1.0)
    records = read_examples(lenient, RowCounts(), needed, dict, optional)
    return [[text for role, value in values.items() for text in _texts(role, value)] for _, values in records]


def _texts(role: str, value: Any) -> Iterator[str]:
    """The texts in a value, without half characters, in NFC."""
    if isinstance(value, str):
        yield nfc(value.encode("utf-8", "replace").decode())
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(role, part)
    elif isinstance(value, (list, tuple)):
        parts = [SPLIT_NOT.sub(r"\1", " ".join(map(str, value)))] if role == WORDS else value
        for part in parts:
            yield from _texts("", part)


def overlap_of(items: Sequence[Sequence[str]], met: frozenset[str]) -> CorpusOverlap:
    """Return the overlap of items, by the texts that were met."""
    sought = [any(len(words(text)) >= COMPARED.min_words for text in texts) for texts in items]
    return CorpusOverlap(
        items=len(items), sought=sum(sought), met=sum(any(text in met for text in texts) for texts in items)
    )


def met_texts(texts: Iterable[str], documents: Iterable[pa.Array]) -> frozenset[str]:
    """Return those of some texts that a document meets. documents: batches of large_string without nulls"""
    wanted = sorted({*texts})
    lengths = np.array([len(words(text)) for text in wanted], np.int64)
    index = index_items([Item("", place, text) for place, text in enumerate(wanted)], COMPARED)
    is_met = np.zeros(len(wanted), np.bool_)
    for some in _meeting(documents, index) if index.items else ():
        is_met |= _met_by(wanted, lengths, is_met, some)
    return frozenset(text for text, met in zip(wanted, is_met.tolist(), strict=True) if met)


def _meeting(documents: Iterable[pa.Array], index: EvaluationIndex) -> Iterator[list[str]]:
    """Return the documents that meet anything, some at a time."""
    texts = (batch[row].as_py() for batch in documents for row, met in enumerate(meet(batch, index)) if met is not None)
    return enough_together(texts, len, AT_ONCE)


def _met_by(texts: Sequence[str], lengths: Int64s, already: Bools, documents: Sequence[str]) -> Bools:
    """Mark the texts that documents meet, except those already met."""
    is_met = np.zeros(len(texts), np.bool_)
    items = [Item("", place, text) for place, text in enumerate(documents)]
    for n in range(COMPARED.min_words, COMPARED.n + 1):
        places = np.flatnonzero(~already & ((lengths == n) if n < COMPARED.n else (lengths >= n)))
        if places.size:
            index = index_items(items, ContaminationSettings(n=n, min_words=n))
            column = pa.array([texts[place] for place in places.tolist()], pa.large_string())
            is_met[places] = [met is not None for met in meet(column, index)]
    return is_met
