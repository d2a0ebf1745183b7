"""The part size that `cloze plan` proposes: none for what is small, fewer and larger parts for a terabyte."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import fill, new_world

from flows.run.plan.part_sizes import LARGEST_BYTES, MANY, part_size_advice, proposed_part_bytes
from flows.run.plan.plan import Planned

TERABYTE = 10**12


@pytest.mark.parametrize("raw_bytes", [0, 1, 10**6, 2 * 10**10])
def test_small_sources_keep_their_parts(raw_bytes: int) -> None:
    assert proposed_part_bytes(raw_bytes, 4_000_000) == 4_000_000


def test_a_terabyte_gets_the_largest_parts_and_larger_ones_stay() -> None:
    assert proposed_part_bytes(TERABYTE, 4_000_000) == LARGEST_BYTES
    assert proposed_part_bytes(TERABYTE, 2 * LARGEST_BYTES) == 2 * LARGEST_BYTES


def test_only_sources_of_very_many_parts_that_are_to_be_built_are_told_of(tmp_path: Path) -> None:
    recipe = fill(new_world(tmp_path)).recipe()
    names = [entry.source.name for entry in recipe.sources]
    entry = Planned(stage=f"documents/{names[0]}", state="build", parts=250_000, missing=250_000, reason="new")
    size = recipe.sources[0].documents.part_bytes
    [line] = part_size_advice(recipe, [entry])
    assert names[0] in line and f"250,000 parts of {size:,}" in line and "documents.part_bytes = " in line
    assert part_size_advice(recipe, [replace(entry, missing=MANY)]) == []
    assert part_size_advice(recipe, [replace(entry, missing=0, state="reuse")]) == []
