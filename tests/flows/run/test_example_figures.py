"""Figures of examples: shares of the ledgers, labels that looks give away, neighbours that are lost, nothing made."""

from pathlib import Path
from typing import Any

import pytest
from small_shards import put_shards

from corpora.store.places.place import Place
from corpora.store.tables import read_table
from flows.recipes.run_settings import read_bounds
from flows.run.record.figures import compute_figures, list_crossings
from flows.run.record.ledger_balance import count_lost, explain_no_examples, list_surface_warnings, list_warnings
from shards.settings import ShardSettings, read_shard_settings


def test_what_is_measured_while_building_is_a_figure_and_can_be_bounded(tmp_path: Path) -> None:
    """Fails if a figure is of other sums than the ledger's, or a bound on it is not held."""
    place = Place(str(tmp_path))
    shards, _ = put_shards(place, ShardSettings(length=32, copies=4), documents=60)
    figures, ledger = compute_figures(place, [shards]), shards.ledger.figures
    examples = shards.count_rows("examples")
    assert figures["fill"].value == ledger["example tokens"] / (32 * examples)
    assert figures["random share"].value == ledger["random"] / examples
    assert figures["truncated token share"].value == 0
    left = sum(account.outcomes["left_over"] for account in shards.ledger.accounts)
    total = sum(account.total for account in shards.ledger.accounts)
    assert figures["left over token share"].value == left / total
    assert figures["label deviation"].value == abs(ledger["next"] - ledger["random"]) / examples**0.5
    assert 0 < figures["surface accuracy at least"].value < figures["surface accuracy"].value < 1
    assert "lost neighbour share" not in figures
    bounds = read_bounds({"fill": {"min": 0.99}, "label deviation": {"max": 4.0}, "random share": {"max": 0.7}})
    [crossed] = list_crossings(bounds, figures, None)
    assert crossed.startswith("fill is ")


def test_neighbours_of_deleted_documents_are_counted(tmp_path: Path) -> None:
    """Fails if an example whose documents are all deleted counts, or one that lost a partner does not."""
    place = Place(str(tmp_path))
    shards, _ = put_shards(place, ShardSettings(length=32), documents=40, gone=[1, 2, 3])
    gone = {row["id"] for batch in read_table(place, shards, "deleted", ("id",)) for row in batch.to_pylist()}
    held = [set(r["documents"]) for b in read_table(place, shards, "examples", ("documents",)) for r in b.to_pylist()]
    lost = sum(bool(documents & gone) and not documents <= gone for documents in held)
    assert len(gone) == 3 and lost > 0
    assert count_lost(place, shards) == (lost, len(held))
    assert compute_figures(place, [shards])["lost neighbour share"].value == lost / len(held)


def test_looks_that_tell_labels_are_told() -> None:
    figures = {
        "surface accuracy at least (a)": 0.61,
        "surface accuracy at least (b)": 0.54,
        "surface accuracy (b)": 0.9,
    }
    [line] = list_surface_warnings(figures)
    assert line.startswith("shards/a: the labels of at least 61% of the examples are guessed")
    assert list_surface_warnings({"surface accuracy at least": 0.7})[0].startswith("shards: ")


def test_documents_of_which_nothing_came_are_told_with_the_setting_to_change(tmp_path: Path) -> None:
    """One document to train on, which has no partner."""
    shards, _ = put_shards(Place(str(tmp_path)), ShardSettings(length=5), documents=2)
    [told] = list_warnings(shards)
    assert told == explain_no_examples("small", shards)
    assert told.startswith("shards/small: no example came of 1 document") and 'set input = "full-sentences"' in told


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"input": "sentence-order", "length": 16}, "left over. Sentences alone in their document"),
        ({"input": "sentence-order", "length": 24}, ""),
    ],
)
def test_text_that_is_in_no_example_is_told_above_a_tenth(tmp_path: Path, table: dict[str, Any], word: str) -> None:
    """Fails if a shard set that leaves out much of its text says nothing, or one that does not is warned of."""
    shards, _ = put_shards(Place(str(tmp_path)), read_shard_settings(table))
    told = " ".join(list_warnings(shards))
    assert word in told and bool(told) == bool(word)
    lost = sum(account.total - account.outcomes["placed"] for account in shards.ledger.accounts)
    assert not word or f"({lost:,} of {shards.ledger.accounts[0].total:,})" in told
