"""Looks reveal nothing of the labels of pairs, and all of a leak that was put in; counts add up."""

import numpy as np
import pyarrow as pa
import pytest
from small_documents import documents_of

from corpora.kernels.arrays import Int64s
from shards.builders.contract import Common, DocumentTokens
from shards.builders.segments.pairs import SegmentPairInput
from shards.builders.segments.sentence_order import SentenceOrderInput
from shards.masks.masking import ShardVocabulary
from shards.surfaces import SUSPECT_ACCURACY, Segments, count_surfaces, measure_surface_accuracy, to_surface_rows

VOCABULARY = ShardVocabulary(1 << 20, {"pad": 0, "cls": 1, "sep": 2, "mask": 3, "unk": 4})


def made(lengths: list[list[int]]) -> DocumentTokens:
    return documents_of(lengths, 0.7)


def drawn(documents: int, least: int, most: int, scale: float = 0.6) -> DocumentTokens:
    """Documents of `least` to `most` sentences of uneven lengths."""
    random = np.random.default_rng(most)
    sizes = random.integers(least, most + 1, documents)
    return made([np.maximum(2, random.lognormal(2.7, scale, size).astype(int)).tolist() for size in sizes])


KINDS = {
    "prose": (drawn(150, 10, 60), 64),
    "one to three sentences": (drawn(2500, 1, 3), 64),
    "one sentence": (drawn(3000, 1, 1), 64),
    "mixed lengths": (drawn(250, 1, 40, scale=1.4), 64),
    "sentences longer than an example": (made([[300, 700]] * 40 + [[500] * 3] * 10), 64),
    "two documents": (drawn(2, 1500, 1600), 64),
    "equal lengths": (made([[10] * 12 for _ in range(250)]), 64),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_labels_of_pairs_are_not_on_the_surface(kind: str) -> None:
    """Fails if lengths, begins or ends tell "next" from random, on texts of any shape, or the coin is not fair."""
    columns, length = KINDS[kind]
    built = SegmentPairInput().build(columns, Common(length, 2, 42), VOCABULARY)
    assert built.surfaces is not None and built.examples.label is not None
    guessed = measure_surface_accuracy({"train": to_surface_rows(built.surfaces)})
    assert guessed is not None and guessed.examples > 100 and not guessed.held_out
    assert abs(guessed.accuracy - 0.5) < 4 * 0.5 / np.sqrt(guessed.examples)
    assert guessed.accuracy <= 0.58 or guessed.examples < 1000
    label = built.examples.label.astype(int)
    assert abs(label.sum() - (1 - label).sum()) < 3 * np.sqrt(len(label))
    for ledger in built.ledgers:
        outcomes = ledger.find_account("tokens").outcomes
        assert outcomes["truncated"] == 0 and outcomes["left_over"] < 0.03 * len(columns.ids)


@pytest.mark.parametrize("kind", [*KINDS, "greetings"])
def test_an_order_is_not_on_the_surface(kind: str) -> None:
    """Fails if a chunk's first sentence is the longer one, cuts show, or a greeting says which segment is first."""
    greetings = made([[3, *sizes] for sizes in ([9, 14], [17], [8, 21, 13]) for _ in range(1000)])
    columns, length = KINDS[kind] if kind in KINDS else (greetings, 64)
    built = SentenceOrderInput().build(columns, Common(length, 2, 42), VOCABULARY)
    assert built.surfaces is not None
    guessed = measure_surface_accuracy({"train": to_surface_rows(built.surfaces)})
    assert guessed is not None and guessed.examples > 100
    assert abs(guessed.accuracy - 0.5) < 4 * 0.5 / np.sqrt(guessed.examples)


def leaking(num: int, seed: int) -> Int64s:
    """Counts of examples whose B begins inside a sentence where the label is 0, in nine of ten."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, num).astype(np.uint8)
    inside = (label == 0) ^ (random.random(num) < 0.1)
    sentences = np.arange(0, 10_001, 10)
    start = random.integers(0, 900, num) * 10
    segments = Segments(start, np.full(num, 10), start + 10 + 5 * inside, np.full(num, 15))
    ids = random.integers(0, 1 << 63, num, dtype=np.uint64) * np.uint64(2)
    return count_surfaces(sentences, segments, label, ids, room=61)


def test_a_leak_is_found_and_called_so() -> None:
    """Fails if a flag of the surface does not reach the regression."""
    guessed = measure_surface_accuracy(
        {"train": to_surface_rows(leaking(4000, 1)), "held-out": to_surface_rows(leaking(2000, 2))}
    )
    assert guessed is not None and guessed.held_out and guessed.examples == 2000
    assert abs(guessed.accuracy - 0.9) < 0.03 and guessed.lower_bound > SUSPECT_ACCURACY


def test_rows_of_several_shards_count_as_their_sum() -> None:
    """Fails if the accuracy depends on how examples are spread over shards."""
    one, other = leaking(3000, 1), leaking(3000, 2)
    apart = pa.concat_tables([to_surface_rows(one), to_surface_rows(other)])
    together, spread = (
        measure_surface_accuracy({"train": to_surface_rows(one + other)}),
        measure_surface_accuracy({"train": apart}),
    )
    assert together is not None and spread is not None
    assert together.examples == spread.examples and together.accuracy == spread.accuracy
    assert apart.column("examples").to_numpy().sum() == 6000


def test_a_small_held_out_split_judges_nothing() -> None:
    guessed = measure_surface_accuracy(
        {"train": to_surface_rows(leaking(4000, 1)), "held-out": to_surface_rows(leaking(900, 2))}
    )
    assert guessed is not None and not guessed.held_out and 800 < guessed.examples < 1200


def test_without_examples_there_is_no_accuracy() -> None:
    empty = to_surface_rows(np.zeros_like(leaking(10, 1)))
    assert (
        empty.num_rows == 0
        and measure_surface_accuracy({"train": empty}) is None
        and measure_surface_accuracy({}) is None
    )
