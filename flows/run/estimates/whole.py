"""Estimates a run: a sample of its sources, a rehearsal with it, and every stage scaled from that.

`estimate_run` is the page to read. Each stage that a plan does not find whole has an estimate; one that exists
already has none, but its contents count for those after it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corpora.sources.contract import RawFile
from corpora.store.places.place import Place
from flows.recipes.guesses.fields import reading
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.estimates import work
from flows.run.estimates.basis import basis_lines, dropped, rules_that_stop
from flows.run.estimates.estimator import Estimator
from flows.run.estimates.figures import Estimates
from flows.run.estimates.rehearsal import rehearse
from flows.run.estimates.sampling import SECONDS, sample_source
from flows.run.estimates.scaling import Older
from flows.run.inputs.start_model import begun
from flows.run.pipeline import readable
from flows.run.plan.plan import Planned


def estimate_run(place: Place, recipe: Recipe, lock: Lock, planned: Sequence[Planned], workers: int) -> Estimates:
    """Estimate each stage that a plan would build. Reads a sample of the raw files, and writes nothing that stays.

    Raises UnreadableFile if raw files cannot be cut.
    """
    if all(entry.state == "reuse" for entry in planned):
        return Estimates(stages=(), workers=workers)
    recipe, _ = begun(recipe, lock)
    older, files = _sources(recipe, lock, planned)
    seconds = {
        name: SECONDS * max(0.1, _size(raw_files) / max(1, sum(map(_size, files.values()))))
        for name, raw_files in files.items()
    }
    entries = tuple(entry for entry in recipe.sources if entry.source.name in files)
    read = ((reading(e.source, lock.guessed, len(lock.generations)), files[e.source.name]) for e in entries)
    samples = {source.name: sample_source(source, raw_files, seconds[source.name]) for source, raw_files in read}
    estimator = Estimator(
        recipe=recipe,
        planned=planned,
        samples=samples,
        rehearsal=rehearse(replace(recipe, sources=entries), samples, _trained(place, recipe, planned)),
        older=older,
        resampled=frozenset(name for name in older if not _is_new(planned, name)),
        workers=workers,
        from_start=not older or not any(_is_new(planned, name) for name in samples),
    )
    stages = tuple(estimator.stages())
    return Estimates(
        stages=stages,
        basis=tuple(basis_lines(estimator, stages)),
        stops=tuple(rules_that_stop(estimator)),
        start_cpu_seconds=work.START_SECONDS,
        workers=workers,
        raw_bytes=sum(sample.raw_bytes for sample in samples.values()),
        sampled_bytes=sum(sample.read_bytes for sample in samples.values()),
        drops=dropped(estimator),
    )


def _size(files: Sequence[RawFile]) -> int:
    return sum(file.size_bytes for file in files)


def _is_new(planned: Sequence[Planned], source: str) -> bool:
    return any(entry.stage == f"documents/{source}" and entry.state != "reuse" for entry in planned)


def _sources(
    recipe: Recipe, lock: Lock, planned: Sequence[Planned]
) -> tuple[dict[str, Older], dict[str, list[RawFile]]]:
    """Return what the store holds of each source, and the raw files to sample of each: those without documents.

    If all files of a source have documents, the sample is taken from them.
    """
    entries = iter([entry for entry in planned if entry.stage.startswith("documents/")])
    older: dict[str, Older] = {}
    built: dict[str, list[RawFile]] = {}
    unbuilt: dict[str, list[RawFile]] = {}
    generations = (
        (entry.source.name, readable(lock, entry, files)) for files in lock.generations for entry in recipe.sources
    )
    for name, raw_files in generations:
        manifest = plan.manifest if raw_files and (plan := next(entries, None)) is not None else None
        here = [file for file in raw_files if file.path]
        (unbuilt if manifest is None else built).setdefault(name, []).extend(here)
        if manifest is not None:
            held = older.get(name, Older())
            older[name] = Older(
                documents=held.documents + manifest.rows("documents"),
                text_bytes=held.text_bytes + manifest.ledger.figures.get("text bytes", 0),
            )
    return older, {name: files for name, files in (built | {n: f for n, f in unbuilt.items() if f}).items() if files}


def _trained(place: Place, recipe: Recipe, planned: Sequence[Planned]) -> dict[str, Path]:
    """Return the folders of vocabularies that exist, by their names in the recipe."""
    existing = {entry.stage: entry.manifest for entry in planned if entry.manifest is not None}
    folders = {}
    for entry in recipe.vocabularies:
        manifest = existing.get(f"vocabularies/{recipe.artifact_name(entry.name)}")
        if manifest is not None and place.is_local:
            folders[entry.name] = Path(place.at(manifest.folder))
    return folders
