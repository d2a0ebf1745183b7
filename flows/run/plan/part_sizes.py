"""Advice on the size of parts, given by `cloze plan` if a source would be cut into very many.

A part is the unit of resume, and costs some files, a record, a line in every manifest that holds it, and one opening
for each shard. At 1 TB of raw text parts of 4 MB would be 250,000 in every stage; 128 MB make 7,800, each at
most a minute of one core's work from raw text to tokens.
"""

from collections.abc import Sequence

from flows.recipes.recipe import Recipe
from flows.run.plan.plan import Planned

MANY = 10_000  # parts of one source: above this another size is proposed
GOAL = 5_000
LARGEST_BYTES = 128_000_000


def proposed_part_bytes(raw_bytes: int, part_bytes: int) -> int:
    """The raw bytes of a part that cuts a source into some GOAL parts, in steps of doubling from what is set.

    >>> [proposed_part_bytes(raw_bytes, 4_000_000) for raw_bytes in (10**9, 10**11, 10**12)]
    [4000000, 32000000, 128000000]
    """
    while raw_bytes / part_bytes > GOAL and 2 * part_bytes <= LARGEST_BYTES:
        part_bytes *= 2
    return part_bytes


def part_size_advice(recipe: Recipe, planned: Sequence[Planned]) -> list[str]:
    """A line for each source that would be cut into very many parts, with the setting that makes them fewer."""
    parts = {entry.stage: entry.missing for entry in planned}
    lines = []
    for entry in recipe.sources:
        missing, size = parts.get(f"documents/{entry.source.name}", 0), entry.documents.part_bytes
        proposed = proposed_part_bytes(missing * size, size)
        if missing > MANY and proposed > size:
            fewer = -(-missing * size // proposed)
            lines.append(
                f"Source {entry.source.name!r} would be cut into {missing:,} parts of {size:,} raw bytes: "
                f"documents.part_bytes = {proposed:,} makes {fewer:,}, with fewer files and less to do for each shard."
            )
    return lines
