"""Checks that a run fits the disk of its store and the memory of this machine. One paragraph says what to change.

`cloze plan` checks its estimates. A run has no estimates: it is refused only if even the least that such raw files can
produce does not fit.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import gettempdir

from corpora.errors import InputError
from corpora.sources.contract import RawFile
from corpora.store.places.place import Place
from flows.recipes.recipe import Recipe
from flows.recipes.run_settings import LOCAL_ENGINE
from flows.run.estimates.stage_estimates import DRIVER_BYTES, Estimates
from flows.run.policies import count_cores
from flows.run.record.ledger_balance import format_bytes
from flows.run.stage_kinds import STAGES, WORKER_BYTES, StageKind

MIN_STORED_SHARE = 0.02  # bytes of a store for each of raw files: pages of a crawl, most of which are dropped
SPARE_BYTES = 200_000_000  # of a disk that is almost full
MEMORY_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def read_usable_memory() -> int:
    """Return the memory that this process may use, in bytes: that of the machine, or a container's smaller limit."""
    limits = [Path(limit).read_text(encoding="ascii").strip() for limit in MEMORY_LIMIT_FILES if Path(limit).exists()]
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *(int(limit) for limit in limits if limit.isdigit())])


def read_free_bytes(place: Place) -> int | None:
    """Return the free disk space of a store in bytes, or None if the store is not a local folder."""
    if not place.is_local:
        return None
    folder = Path(place.address).absolute()
    return shutil.disk_usage(next(above for above in (folder, *folder.parents) if above.is_dir())).free


def get_scratch_folder(place: Place) -> Path:
    """Return the folder for a run's temporary files: one in the store or, for an object store, the system's."""
    return Path(place.address if place.is_local else gettempdir()).absolute()


def refuse_without_room(recipe: Recipe, estimates: Estimates, available: int | None = None) -> None:
    """Check that a run fits into the free disk space and memory, according to its estimates.

    Args:
        recipe: The recipe. It specifies the store.
        estimates: The estimated needs of the run's stages.
        available: Available memory in bytes; if None, the memory of this machine.

    Raises:
        InputError: If the run needs more disk space or memory. Memory is not checked for runs on a Dask cluster.
    """
    place, disk_bytes = Place(recipe.store), estimates.run.disk_bytes
    free, available = read_free_bytes(place), read_usable_memory() if available is None else available
    if free is not None and disk_bytes > free:
        largest = sorted(estimates.stages, key=lambda stage: -stage.disk_bytes)[:3]
        most = ", ".join(f"{stage.stage} {format_bytes(stage.disk_bytes)}" for stage in largest)
        raise InputError(
            f"The run would write about {format_bytes(disk_bytes)} into {place.to_address('')}, where "
            f"{format_bytes(free)} are free. The most of it: {most}. Give it a store on another disk (--store), "
            "fewer raw files, fewer [[shards]] or shards.copies, or dynamic masks instead of static ones."
        )
    scratch, folder = estimates.run.scratch_bytes, get_scratch_folder(place)
    left = shutil.disk_usage(gettempdir()).free if free is None else free - disk_bytes
    if scratch > left and recipe.engine == LOCAL_ENGINE:
        raise InputError(
            f"Finding duplicates would take about {format_bytes(scratch)} of scratch in {folder}, beside what the "
            f"run writes there, and {format_bytes(max(left, 0))} are free for it. "
            + (
                "Give it a store on another disk (--store)"
                if free is not None
                else "Set TMPDIR to a folder on another disk"
            )
            + ", or fewer raw files."
        )
    for stage in sorted(estimates.stages, key=lambda stage: -stage.memory_bytes)[:1]:
        if stage.memory_bytes > available and recipe.engine == LOCAL_ENGINE:
            raise InputError(
                f"The stage {stage.stage} would take about {format_bytes(stage.memory_bytes)} of memory, and this "
                f"machine has {format_bytes(available)} for it. "
                f"{_describe_memory_remedy(STAGES[stage.stage.split('/')[0]], estimates.workers)}"
            )


def _describe_memory_remedy(kind: StageKind, workers: int) -> str:
    fewer = "" if kind.is_alone or workers == 1 else f"Run with --workers {workers // 2} instead of {workers}. "
    return fewer + (kind.memory_remedy or "Else take a larger machine, or fewer raw files.")


def refuse_without_least_room(recipe: Recipe, new: Iterable[RawFile], workers: int) -> None:
    """Check, before a run starts, that there is enough disk space and memory for the minimum that it needs.

    Args:
        recipe: The recipe. It specifies the store.
        new: The raw files that this run reads for the first time.
        workers: Number of worker processes.

    Raises:
        InputError: If there is not enough. Memory is not checked for runs on a Dask cluster.
    """
    place = Place(recipe.store)
    free, available = read_free_bytes(place), read_usable_memory()
    least = round(MIN_STORED_SHARE * sum(file.size_bytes for file in new))
    if free is not None and least > SPARE_BYTES and least > free:
        raise InputError(
            f"The new raw files of the recipe {recipe.name!r} would come to at least {format_bytes(least)} in "
            f"{place.to_address('')}, where {format_bytes(free)} are free. Give it a store on another disk "
            "(--store), or fewer raw files; `cloze plan` says what each stage would take."
        )
    needed = DRIVER_BYTES + workers * WORKER_BYTES
    if needed > available and workers > 1 and recipe.engine == LOCAL_ENGINE:
        fitting = max(1, min(count_cores(), (available - DRIVER_BYTES) // WORKER_BYTES))
        raise InputError(
            f"{workers} workers take at least {format_bytes(needed)} of memory, and this machine has "
            f"{format_bytes(available)} for them. Run with --workers {fitting}."
        )
