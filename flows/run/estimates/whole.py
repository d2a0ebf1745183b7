"""Estimates a run: a sample of its sources, a rehearsal with it, and every stage scaled from that.

`estimate_run` is the page to read. Each stage that a plan does not find whole has an estimate; one that exists
already has none, but its contents count for those after it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpora.judging.documents import most_dropped, rules_over_limit
from corpora.sources.contract import RawFile
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.guesses.fields import reading
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.estimates import work
from flows.run.estimates.estimator import Estimator, Older
from flows.run.estimates.figures import Estimates, StageEstimate
from flows.run.estimates.rehearsal import rehearse
from flows.run.estimates.sampling import SECONDS, sample_source
from flows.run.faults.rule_limits import template_hint
from flows.run.inputs.start_model import begun
from flows.run.plan.plan import Planned
from flows.run.record.counts_text import counted
from flows.run.record.ledger_balance import readable_bytes
from flows.run.settled import judged_documents
from flows.run.source_plans import readable


def estimate_run(place: Place, recipe: Recipe, lock: Lock, planned: Sequence[Planned], workers: int) -> Estimates:
    """Estimate each stage that a plan would build. Reads a sample of the raw files, and writes nothing that stays.

    Raises FileFault if raw files cannot be cut.
    """
    if all(entry.state == "reuse" for entry in planned):
        return Estimates(stages=(), workers=workers)
    recipe, _ = begun(recipe, lock)
    older, files = _sources(place, recipe, lock, planned)
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
    )


def _size(files: Sequence[RawFile]) -> int:
    return sum(file.size_bytes for file in files)


def _is_new(planned: Sequence[Planned], source: str) -> bool:
    return any(entry.stage == f"documents/{source}" and entry.state != "reuse" for entry in planned)


def _sources(
    place: Place, recipe: Recipe, lock: Lock, planned: Sequence[Planned]
) -> tuple[dict[str, Older], dict[str, list[RawFile]]]:
    """Return what the store holds of each source, and the raw files to sample of each: those without documents.

    If all files of a source have documents, the sample is taken from them.
    """
    entries = iter(_documents(place, planned))
    older: dict[str, Older] = {}
    built: dict[str, list[RawFile]] = {}
    unbuilt: dict[str, list[RawFile]] = {}
    generations = (
        (entry.source.name, readable(lock, entry, files)) for files in lock.generations for entry in recipe.sources
    )
    for name, raw_files in generations:
        manifest = next(entries, None) if raw_files else None
        here = [file for file in raw_files if file.path]
        (unbuilt if manifest is None else built).setdefault(name, []).extend(here)
        if manifest is not None:
            held = older.get(name, Older())
            older[name] = Older(
                documents=held.documents + manifest.rows("documents"),
                text_bytes=held.text_bytes + manifest.ledger.figures.get("text bytes", 0),
            )
    return older, {name: files for name, files in (built | {n: f for n, f in unbuilt.items() if f}).items() if files}


def _documents(place: Place, planned: Sequence[Planned]) -> Iterator[Manifest | None]:
    """Yield the documents of each source and generation, settled ones first; None for those to be built."""
    first = next((entry.manifest for entry in planned if entry.stage.startswith(("corpora/", "documents/"))), None)
    if first is not None and first.kind == "corpora":  # of the settled generations
        parent = first.parents[-1]
        verdicts = read_manifest(place, f"{parent.role}/{parent.name}/{parent.fingerprint}")
        yield from judged_documents(place, verdicts) if verdicts is not None else ()
    yield from (entry.manifest for entry in planned if entry.stage.startswith("documents/"))


def _trained(place: Place, recipe: Recipe, planned: Sequence[Planned]) -> dict[str, Path]:
    """Return the folders of vocabularies that exist, by their names in the recipe."""
    existing = {entry.stage: entry.manifest for entry in planned if entry.manifest is not None}
    folders = {}
    for entry in recipe.vocabularies:
        manifest = existing.get(f"vocabularies/{recipe.artifact_name(entry.name)}")
        if manifest is not None and place.is_local:
            folders[entry.name] = Path(place.at(manifest.folder))
    return folders


def basis_lines(estimator: Estimator, stages: Sequence[StageEstimate]) -> Iterable[str]:
    """Yield lines about what the estimates are based on, and what they cannot say."""
    samples = estimator.samples
    yield _sampled_line(estimator)
    if short := [name for name, sample in samples.items() if sample.cut_short]:
        yield f"The sample of {', '.join(short)} was cut short because reading it took long."
    if faulty := {name: sample.unreadable for name, sample in samples.items() if sample.unreadable}:
        yield f"Of {', '.join(faulty)}, {counted(sum(faulty.values()), 'file')} of the sample cannot be read."
    if estimator.rehearsal.ended:
        yield f"With the sample a run would end before its last stage. {estimator.rehearsal.ended}"
        missing = dict.fromkeys(entry.stage for entry in estimator.planned if entry.state != "reuse")
        if left := [stage for stage in missing if stage not in {estimate.stage for estimate in stages}]:
            yield f"Not estimated: {', '.join(left)}."
    if not all(sample.whole for sample in samples.values()):
        yield (
            "Copies grow with a corpus, and a sample sees few of them: of documents and tokens less may be left. "
            "Tokens are counted with vocabularies that were trained on the sample."
        )
    yield "Times are those of the sample on this machine, alone."
    yield from estimator.warnings()


def _sampled_line(estimator: Estimator) -> str:
    samples = estimator.samples.values()
    raw, read = sum(sample.raw_bytes for sample in samples), sum(sample.read_bytes for sample in samples)
    sampled, records = sum(len(sample.sampled) for sample in samples), round(sum(sample.records for sample in samples))
    if all(sample.whole for sample in samples):
        return f"Estimated from all {counted(sampled, 'record')}, judged by the recipe's own steps."
    share = f" in {readable_bytes(read)} of {readable_bytes(raw)} of raw files" if read < raw else ""
    return f"Estimated from {sampled:,} of about {records:,} records{share}, judged by the recipe's own steps."


def rules_that_stop(estimator: Estimator) -> Iterable[str]:
    """Yield what would stop the run: rules over their bounds, and the template that fits the texts better."""
    for entry in estimator.recipe.sources:
        name, settings = entry.source.name, entry.documents
        judged = estimator.judged.get(name)
        rules = []
        for rule in rules_over_limit(judged, settings) if judged is not None else ():
            times = estimator.scales[name].documents
            documents = round(rule.documents * times)
            whole = replace(rule, dropped=round(rule.dropped * times), documents=documents)
            rules += [str(whole)] if whole.dropped > most_dropped(documents, settings) else []
        yield from rules
        if rules:
            texts = [record.text for record in estimator.samples[name].sampled if record.drop is None]
            yield from filter(None, [template_hint(texts, name)])
