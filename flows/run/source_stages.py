"""Plans the stages that read raw files: the documents of each source and generation, and the statistics before them.

Raw files of an older generation (files that an earlier run added) may be gone if the store has what was made of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from corpora.errors import InputError
from corpora.judging.documents import plan_documents
from corpora.judging.inputs import read_inputs
from corpora.judging.statistics_build import plan_statistics
from corpora.sources.contract import RawFile
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, survey_stage
from flows.recipes.guessed_fields import with_guessed_names
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.example_stages import Perform
from flows.run.record.counts_text import format_count


def make_statistics(place: Place, recipe: Recipe, lock: Lock, perform: Perform) -> dict[str, Manifest]:
    """Build the statistics that some sources need before their documents are parsed.

    They are computed from the raw files of the first run that found files for the source.

    Args:
        place: The store.
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run), with the files' current paths.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.

    Returns:
        The manifests (descriptions) of the statistics, by source name. Sources that need no statistics are omitted.
    """
    stages = {}
    for entry in recipe.sources:
        name = entry.source.name
        by_generation = ((n, list_readable(lock, entry, files)) for n, files in enumerate(lock.generations, 1))
        number, first = next(((n, raw_files) for n, raw_files in by_generation if raw_files), (0, ()))
        if first and entry.documents.needs_statistics:
            plan = partial(
                plan_statistics,
                with_guessed_names(entry.source, lock.guessed, number),
                first,
                entry.documents,
                read_inputs(entry.documents),
                quarantine=lock.quarantine,
            )
            stages[name] = plan_from_raw_or_store(place, name, first, plan)
    return dict(zip(stages, perform(list(stages.values())), strict=True)) if stages else {}


def list_readable(lock: Lock, entry: SourceEntry, files: Mapping[str, Sequence[RawFile]]) -> tuple[RawFile, ...]:
    """List a source's raw files in one generation, without the files that the lock file skips as unreadable.

    Args:
        lock: Content of the recipe's lock file.
        entry: The source.
        files: The raw files of the generation (those that one run added), by source name.
    """
    left_out = lock.find_left_out(entry.source)
    return tuple(file for file in files.get(entry.source.name, ()) if file.sha256 not in left_out)


def build_documents_plan(
    entry: SourceEntry, lock: Lock, number: int, statistics: Manifest | None = None
) -> Callable[..., Stage]:
    """Return a function that plans the parsing of one source in one generation.

    A generation is the raw files that one run added. If the function is called with `with_parts=False`, no raw file is
    opened, and the stage has no parts (file sets that are built separately).

    Args:
        entry: The source.
        lock: The recipe's lock (the raw files of each run), with the files' current paths.
        number: One-based number of the generation.
        statistics: Manifest of the source's statistics; None if the source needs none.
    """
    settings = entry.documents
    return partial(
        plan_documents,
        with_guessed_names(entry.source, lock.guessed, number),
        lock.generations[number - 1][entry.source.name],
        settings,
        quarantine=lock.quarantine,
        inputs=read_inputs(settings),
        statistics=statistics,
        left_out=lock.find_left_out(entry.source),
    )


def plan_from_raw_or_store(place: Place, name: str, raw: Sequence[RawFile], plan: Callable[..., Stage]) -> Stage:
    """Plan a stage that reads raw files. If raw files are gone, the plan is only used to find its result in the store.

    In the second case, the returned stage has no parts (file sets to build).

    Args:
        place: The store.
        name: Name of the source, for messages.
        raw: The raw files. The path of a file that is gone is "".
        plan: Function that plans the stage. It is called with `with_parts=False` for a stage without parts.

    Raises:
        InputError: If raw files are gone, and the stage's results are missing from the store or damaged.
    """
    gone = [file.name for file in raw if not file.path]
    if not gone:
        return plan()
    lost = format_count(
        len(gone), "raw file of an older generation is gone", "raw files of an older generation are gone"
    )
    stage = plan(with_parts=False)
    survey = survey_stage(place, stage)
    for fault in survey.faults:
        if fault.path.startswith(f"{stage.folder}/"):
            raise InputError(
                f"{fault.path} is damaged: {fault.what}. Source {name!r}: {lost} (first: {gone[0]}), from "
                "which it would be built again. Bring them back, or that file from a copy of the store."
            ) from fault
    if survey.manifest is None:
        raise InputError(
            f"Source {name!r}: {lost} (first: {gone[0]}), and their "
            f"{stage.kind} are not in the store with these settings. Bring the files back, or delete the lock next to "
            "the recipe to start again from the files that are there."
        )
    return stage
