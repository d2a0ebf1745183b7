"""Merge many parts of an artifact into a few, so that whoever reads all of them has fewer parts to open.

    parts of one set (counts; tokens of a generation) ─► about as many merged parts as each of them is made of

A merged part replaces the parts that it is made of and has the same tables. So n parts that are read by m others cost n
+ m times the root of n visits instead of n times m. Sets of at most MAX_UNMERGED_PARTS parts stay as they are.

Cost: every row is read and written once more, by tasks in parallel.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isqrt

from corpora.store.ledger import Ledger
from corpora.store.manifest import Manifest, Part
from corpora.store.part_writer import PartWriter
from corpora.store.stage import PartPlan, Stage

MAX_UNMERGED_PARTS = 256  # parts that one task reads one after another; each costs it about a millisecond
MIN_PARTS_PER_MERGE = 64  # parts in a merged one


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """The parts (sets of files) of an artifact to merge into one part.

    Attributes:
        folder: The folder of their stage in the store, `KIND/NAME`.
        parts: The parts to merge, in order.
    """

    folder: str
    parts: tuple[Part, ...]


def plan_merge(
    kind: str,
    version: int,
    manifest: Manifest,
    sets: Iterable[Sequence[Part]],
    labels: Sequence[str],
    build: Callable[[PartWriter, PartPlan], Ledger],
) -> Stage | None:
    """Plan the stage that merges the parts of large sets, so that readers have fewer parts to open.

    Args:
        kind: Kind of the new stage.
        version: Build version of the new stage.
        manifest: The artifact that the parts belong to.
        sets: The sets of parts. A set of at most MAX_UNMERGED_PARTS parts is not merged.
        labels: Names of labels. Only parts with equal values of these labels are merged, and the merged part has the
            same values.
        build: Builds a merged part. The `job` of its plan is a `MergeJob`.

    Returns:
        The stage, or None if no set is large enough.
    """
    plans: list[PartPlan] = []
    for parts in sets:
        if len(parts) > MAX_UNMERGED_PARTS:
            size = max(MIN_PARTS_PER_MERGE, isqrt(len(parts)))
            for group in _group_parts(parts, labels, size):
                plans.append(
                    PartPlan(
                        name=f"merged-{len(plans):05d}",
                        key=[part.content for part in group],
                        job=MergeJob(folder=manifest.stage_folder, parts=tuple(group)),
                        labels={name: group[0].labels[name] for name in labels if name in group[0].labels},
                    )
                )
    if not plans:
        return None
    return Stage(
        kind=kind,
        name=manifest.name,
        build_version=version,
        settings={},
        parents=(manifest.as_parent(),),
        libraries={},
        parts=tuple(plans),
        build=build,
    )


def _group_parts(parts: Sequence[Part], labels: Sequence[str], size: int) -> list[list[Part]]:
    """Group parts with equal values of the named labels, at most `size` per group.

    Each group keeps the order of the parts.
    """
    parts_by_labels: dict[tuple[str | None, ...], list[Part]] = {}
    for part in parts:
        parts_by_labels.setdefault(tuple(part.labels.get(name) for name in labels), []).append(part)
    return [group[start : start + size] for group in parts_by_labels.values() for start in range(0, len(group), size)]
