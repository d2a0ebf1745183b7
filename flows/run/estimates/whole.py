"""Estimates a run: a sample of its sources is judged, and every stage follows from its sizes by rates.

`estimate_run` is the page to read. Each stage that a plan does not find whole has an estimate; one that exists
already has none, but its contents count for those after it. Nothing is built.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from corpora.judging.documents import rules_over_limit
from corpora.sources.contract import RawFile
from corpora.store.places.place import Place
from flows.recipes.guesses.fields import reading
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry
from flows.recipes.task_table import TaskEntry
from flows.run.estimates.figures import Estimates
from flows.run.estimates.rates import START_SECONDS, WATCHED_SECONDS
from flows.run.estimates.sampling import SECONDS, sample_source
from flows.run.estimates.stages import RunEstimator
from flows.run.estimates.text_sizes import SourceText, judge_sample
from flows.run.faults.rule_limits import nothing_left, template_hint
from flows.run.inputs.start_model import begun
from flows.run.plan.plan import Planned
from flows.run.record.counts_text import counted
from flows.run.record.releases import answered_until
from flows.run.source_plans import readable


def estimate_run(place: Place, recipe: Recipe, lock: Lock, planned: Sequence[Planned], workers: int) -> Estimates:
    """Estimate each stage that a plan would build. Reads a sample of the raw files, and writes nothing.

    Raises FileFault if raw files cannot be cut, InputError if a labelled file is missing.
    """
    if all(entry.state == "reuse" for entry in planned):
        return Estimates(stages=(), workers=workers)
    recipe, _ = begun(recipe, lock)
    texts = []
    for entry in recipe.sources:
        old, new = _files(entry, lock, planned)
        there = [file for file in new or old if file.path and file.size_bytes]
        if there:
            source = reading(entry.source, lock.guessed, len(lock.generations))
            sample = sample_source(source, there, SECONDS / len(recipe.sources))
            texts.append(judge_sample(entry, sample, _num_bytes(old), _num_bytes(new)))
    asking = [entry for entry in recipe.tasks if entry.settings.answers]
    unanswered = {entry.name: _unanswered(place, recipe, lock, entry) for entry in asking}
    estimator = RunEstimator(recipe, planned, texts, lock.raw_bytes, workers, unanswered)
    stages = estimator.stages()
    return Estimates(
        stages=tuple(stages),
        basis=(*basis_lines(texts), *estimator.warnings(stages)),
        stops=tuple(_stops(recipe, texts)),
        start_cpu_seconds=WATCHED_SECONDS if recipe.model is not None else START_SECONDS,
        workers=workers,
        raw_bytes=lock.raw_bytes,
    )


def _num_bytes(files: Iterable[RawFile]) -> int:
    return sum(file.size_bytes for file in files)


def _files(entry: SourceEntry, lock: Lock, planned: Sequence[Planned]) -> tuple[list[RawFile], list[RawFile]]:
    """Return the raw files of a source that the store has documents of, and those that it has none of."""
    generations = [files for generation in lock.generations if (files := readable(lock, entry, generation))]
    states = [stage.state for stage in planned if stage.stage == f"documents/{entry.source.name}"]
    unseen = "follows" if "follows" in states else "reuse"  # settled generations are not planned
    states = [unseen] * (len(generations) - len(states)) + states
    old, new = list[RawFile](), list[RawFile]()
    for files, state in zip(generations, states, strict=False):
        (old if state == "reuse" else new).extend(files)
    return old, new


def _unanswered(place: Place, recipe: Recipe, lock: Lock, entry: TaskEntry) -> float:
    """Return the share of the raw files whose documents no released model has answered as a task asks for."""
    name, generations = recipe.artifact_name(entry.name), len(lock.generations)
    since = answered_until(place, recipe.name, name, entry.settings.answers, generations)
    return replace(lock, generations=lock.generations[since:]).raw_bytes / max(1, lock.raw_bytes)


def basis_lines(texts: Sequence[SourceText]) -> Iterable[str]:
    """Yield lines about what the estimates are based on, and what they cannot say."""
    sampled, records = sum(len(text.sample.sampled) for text in texts), sum(text.sample.records for text in texts)
    yield f"Estimated from {sampled:,} of about {round(records):,} records, judged by the recipe's own steps."
    if short := [text.source for text in texts if text.sample.cut_short]:
        yield f"The sample of {', '.join(short)} was cut short because reading it took long."
    for text in (text for text in texts if text.sample.unreadable):
        yield f"Of {text.source}, {counted(text.sample.unreadable, 'file')} of the sample cannot be read."
    yield "Copies are not looked for: without them fewer documents and tokens may be left."
    yield "Times, except those of documents, follow rates of another machine: this one may take half or twice as long."


def _stops(recipe: Recipe, texts: Sequence[SourceText]) -> Iterable[str]:
    """Yield what would stop the run: rules over their bounds and the template that fits better, or no document."""
    settings = {entry.source.name: entry.documents for entry in recipe.sources}
    for text in texts:
        rules = [r for r in rules_over_limit(text.source, text.outcomes, settings[text.source]) if r.stops]
        yield from map(str, rules)
        if rules:
            kept = [record.text for record in text.sample.sampled if record.drop is None]
            yield from filter(None, [template_hint(kept, text.source)])
        if not any(text.whole.documents for text in texts):
            yield nothing_left(text.source, text.outcomes)
