"""Estimates a run: a sample of its sources is judged, and every stage follows from its sizes by rates.

`estimate_run` is the page to read. Each stage that a plan does not find whole has an estimate; one that exists
already has none, but its contents count for those after it. Nothing is built.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

from corpora.judging.documents import rules_over_limit
from corpora.sources.contract import SLICE_BYTES, RawFile
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.guesses.fields import reading
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.recipes.task_table import TaskEntry
from flows.run.estimates.figures import Estimates
from flows.run.estimates.rates import START_SECONDS, WATCHED_SECONDS
from flows.run.estimates.sampling import SECONDS, sample_source
from flows.run.estimates.stages import RunEstimator, SourceText
from flows.run.estimates.text_sizes import JudgedSample, judge_sample, sizes_in_store, words_per_mb
from flows.run.faults.rule_limits import nothing_left, template_hint
from flows.run.inputs.start_model import begun
from flows.run.plan.plan import Planned
from flows.run.record.counts_text import counted
from flows.run.record.releases import answered_until
from flows.run.settled import judged_documents
from flows.run.source_plans import readable

RawFiles = Mapping[str, list[RawFile]]


def estimate_run(place: Place, recipe: Recipe, lock: Lock, planned: Sequence[Planned], workers: int) -> Estimates:
    """Estimate each stage that a plan would build. Reads a sample of the raw files, and writes nothing.

    Raises FileFault if raw files cannot be cut, InputError if a labelled file is missing.
    """
    if all(entry.state == "reuse" for entry in planned):
        return Estimates(stages=(), workers=workers)
    recipe, _ = begun(recipe, lock)
    new, old, held = _sources(place, recipe, lock, planned)
    samples = _judged_samples(recipe, lock, {name: new[name] or old[name] for name in {*new, *old}})
    settings = {entry.source.name: entry.documents for entry in recipe.sources}
    texts = [
        SourceText(
            source=name,
            new=judged.sizes.times(num_bytes(new[name]) / judged.sample.raw_bytes),
            held=sizes_in_store(held[name], judged.sizes),
            seconds=judged.seconds,
            fitted=min(1.0, settings[name].repeated_lines.sample_bytes / judged.sample.raw_bytes),
            parts=ceil(num_bytes([*new[name], *old[name]]) / max(SLICE_BYTES, settings[name].part_bytes)),
        )
        for name, judged in samples.items()
    ]
    estimator = RunEstimator(
        recipe=recipe,
        planned=planned,
        texts=texts,
        words_per_mb=words_per_mb([*samples.values()]),
        raw_bytes=lock.raw_bytes,
        workers=workers,
        unanswered={
            entry.name: _unanswered(place, recipe, lock, entry) for entry in recipe.tasks if entry.settings.answers
        },
    )
    stages = estimator.stages()
    return Estimates(
        stages=tuple(stages),
        basis=(*basis_lines(samples), *estimator.warnings(stages)),
        stops=tuple(_stops(recipe, samples, empty=not estimator.whole.documents)),
        start_cpu_seconds=WATCHED_SECONDS if recipe.model is not None else START_SECONDS,
        workers=workers,
        raw_bytes=lock.raw_bytes,
    )


def num_bytes(files: Sequence[RawFile]) -> int:
    """Return how many bytes raw files have."""
    return sum(file.size_bytes for file in files)


def _sources(
    place: Place, recipe: Recipe, lock: Lock, planned: Sequence[Planned]
) -> tuple[RawFiles, RawFiles, Mapping[str, list[Manifest]]]:
    """Return by source the raw files that have no documents in the store, those that have, and these documents."""
    documents = iter(_documents(place, planned))
    new, old = defaultdict[str, list[RawFile]](list), defaultdict[str, list[RawFile]](list)
    held = defaultdict[str, list[Manifest]](list)
    for files in lock.generations:
        for entry in recipe.sources:
            name, raw_files = entry.source.name, readable(lock, entry, files)
            manifest = next(documents, None) if raw_files else None
            (new if manifest is None else old)[name].extend(raw_files)
            held[name] += [manifest] if manifest is not None else []
    return new, old, held


def _documents(place: Place, planned: Sequence[Planned]) -> Iterator[Manifest | None]:
    """Yield the documents of each source and generation, settled ones first; None for those to be built."""
    first = next((entry.manifest for entry in planned if entry.stage.startswith(("corpora/", "documents/"))), None)
    if first is not None and first.kind == "corpora":  # of the settled generations
        parent = first.parents[-1]
        verdicts = read_manifest(place, f"{parent.role}/{parent.name}/{parent.fingerprint}")
        yield from judged_documents(place, verdicts) if verdicts is not None else ()
    yield from (entry.manifest for entry in planned if entry.stage.startswith("documents/"))


def _judged_samples(recipe: Recipe, lock: Lock, files: RawFiles) -> dict[str, JudgedSample]:
    """Judge a sample of some raw files of each source, as far as they are there."""
    there = {name: [file for file in some if file.path and file.size_bytes] for name, some in files.items()}
    samples = {}
    for entry in (entry for entry in recipe.sources if there.get(entry.source.name)):
        source, own = reading(entry.source, lock.guessed, len(lock.generations)), there[entry.source.name]
        samples[entry.source.name] = judge_sample(entry, sample_source(source, own, SECONDS / len(there)))
    return samples


def _unanswered(place: Place, recipe: Recipe, lock: Lock, entry: TaskEntry) -> float:
    """Return the share of the raw files whose documents no released model has answered as a task asks for."""
    name, generations = recipe.artifact_name(entry.name), len(lock.generations)
    since = answered_until(place, recipe.name, name, entry.settings.answers, generations)
    return replace(lock, generations=lock.generations[since:]).raw_bytes / max(1, lock.raw_bytes)


def basis_lines(samples: Mapping[str, JudgedSample]) -> Iterable[str]:
    """Yield lines about what the estimates are based on, and what they cannot say."""
    read = {name: judged.sample for name, judged in samples.items()}
    sampled, records = sum(len(sample.sampled) for sample in read.values()), sum(s.records for s in read.values())
    yield f"Estimated from {sampled:,} of about {round(records):,} records, judged by the recipe's own steps."
    if short := [name for name, sample in read.items() if sample.cut_short]:
        yield f"The sample of {', '.join(short)} was cut short because reading it took long."
    if faulty := {name: sample.unreadable for name, sample in read.items() if sample.unreadable}:
        yield f"Of {', '.join(faulty)}, {counted(sum(faulty.values()), 'file')} of the sample cannot be read."
    if not all(sample.whole for sample in read.values()):
        yield (
            "Copies grow with a corpus, and only equal ones in the sample are counted: of documents and tokens less "
            "may be left."
        )
    yield "Times, except those of documents, follow rates of another machine: this one may take half or twice as long."


def _stops(recipe: Recipe, samples: Mapping[str, JudgedSample], empty: bool) -> Iterable[str]:
    """Yield what would stop the run: rules over their bounds and the template that fits better, or no document.

    empty: whether there is none, of any source
    """
    for entry in (entry for entry in recipe.sources if entry.source.name in samples):
        name = entry.source.name
        judged = samples[name]
        rules = [rule for rule in rules_over_limit(name, judged.outcomes, entry.documents) if rule.stops]
        yield from map(str, rules)
        if rules:
            texts = [record.text for record in judged.sample.sampled if record.drop is None]
            yield from filter(None, [template_hint(texts, name)])
        if empty:
            yield nothing_left(name, judged.outcomes)
