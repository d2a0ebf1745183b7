"""The run, as one page.

    for all generations of raw files, side by side:
        documents    parse, clean, filter          one artifact a source and generation
        signatures   sketch every document         one artifact a source and generation
    for each generation, on what has come up to it:
        verdicts     revisions, forgets, duplicates, the held-out split
        corpus       what stays, what goes
    once, on the vocabulary's generation, or the first after it that has a document:
        counts       words, added up in `totals` where there are many parts
        vocabulary   trained on them, or brought       one artifact a [[vocabulary]]
    for the whole corpus:
        measures     how well each vocabulary fits those words, built beside the tokens
        tokens       every document tokenised          one artifact a vocabulary, its parts merged where they are many
        shards       examples                          one artifact a [[shards]]
        model        weights, learnt phase by phase
        tasks        the model fine-tuned and judged      one artifact a [[task]]
        answers      new documents, by the tasks' models   one artifact a [[task]] that asks for them

What else is to be known of each stage is in `stage_kinds.py`. How it is built is not decided here: `perform` is given
stages that may be built side by side and returns their manifests. In a run each is a task
(`orchestration/stages.py`); for `cloze plan` it only looks (`plan.py`); in a test it may build them in the same
process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from corpora.build import Corpus, Generation, plan_corpus
from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage
from corpora.tombstones import Tombstones, read_tombstones
from flows.recipes.guessed_fields import with_guessed_names
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.answers_build import plan_answers
from flows.run.example_stages import Perform, build_shard_sets, existing_vocabularies, make_vocabularies
from flows.run.faults.rule_limits import JudgedSource, refuse_bad_sources
from flows.run.inputs.start_model import begun, find_baseline, fitting, taught
from flows.run.record.ledger_balance import nothing_said
from flows.run.record.releases import answered_until
from flows.run.settled_generations import (
    NOTHING,
    NumberedSources,
    SettledGenerations,
    find_settled,
    generations_of,
    inputs_of,
    published,
)
from flows.run.source_stages import documents_plan, from_raw_or_store, readable, source_statistics
from trainer.build import plan_model
from trainer.start_weights import StartModel
from trainer.tasks.build import plan_tasks


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of a run: the newest corpus, a model; vocabularies, shard sets and tasks by their names.

    settled: folders of the artifacts of earlier generations that were not looked at again
    """

    documents: tuple[Manifest, ...]
    corpus: Manifest
    vocabularies: Mapping[str, Manifest]
    shard_sets: Mapping[str, Manifest]
    settled: tuple[str, ...] = ()
    model: Manifest | None = None
    tasks: Mapping[str, Manifest] = field(default_factory=dict)

    @property
    def vocabulary(self) -> Manifest:
        """The first vocabulary of the recipe."""
        return next(iter(self.vocabularies.values()))

    @property
    def shards(self) -> Manifest:
        """The first shard set of the recipe."""
        return next(iter(self.shard_sets.values()))


def run_recipe(
    place: Place,
    recipe: Recipe,
    lock: Lock,
    perform: Perform,
    tell: Callable[[str], None] = lambda line: None,
    settle: bool = False,
) -> Outcome:
    """Build everything that a recipe asks for, stage by stage. What the store has already is not built again.

    tell:   is called with a line about rules that drop much of a source that is too small to stop for
    settle: earlier generations are taken as they are if the store holds a corpus of them (`settled_generations.py`)
    """
    recipe, start = begun(recipe, lock)
    existing = existing_vocabularies(recipe)
    start = start and fitting(start, recipe, existing)
    parsed = make_documents(place, recipe, lock, perform, settle)
    refuse_bad_sources(place, judged_sources(parsed, lock), recipe.privacy.samples, tell, lock.accepted)
    vocabularies, measures = dict[str, Manifest](), list[Stage]()
    for number, corpus in make_corpora(place, recipe, lock, parsed, perform):
        last = number == len(lock.generations)
        if not vocabularies and number >= lock.vocabulary_generation and (corpus.count_rows("documents") or last):
            vocabularies, measures = make_vocabularies(recipe, Corpus(place, corpus), existing, perform)
    shard_sets = build_shard_sets(recipe, Corpus(place, corpus), vocabularies, perform, parsed.corpus, measures)
    model = train_model(place, recipe, vocabularies, shard_sets, perform, start, taught(recipe, lock))
    tasks = learn_tasks(place, recipe, model, perform) if model is not None else {}
    answer_documents(place, recipe, corpus, tasks, perform)
    return Outcome(
        documents=tuple(parsed.documents),
        corpus=corpus,
        vocabularies=vocabularies,
        shard_sets=shard_sets,
        settled=parsed.settled.folders,
        model=model,
        tasks=tasks,
    )


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """The sources of all generations, each with the number of its generation, and the documents of each.

    settled: the generations that are not looked at again; corpus: of these
    """

    sources: NumberedSources
    documents: Sequence[Manifest]
    tombstones: Tombstones
    settled: SettledGenerations = NOTHING
    corpus: Manifest | None = None


def make_documents(place: Place, recipe: Recipe, lock: Lock, perform: Perform, settle: bool = False) -> Parsed:
    """Make the documents of all generations. settle: as for `run_recipe`"""
    sources = [
        (number, entry)
        for number, files in enumerate(lock.generations, 1)
        for entry in recipe.sources
        if readable(lock, entry, files)
    ]
    statistics, tombstones = source_statistics(place, recipe, lock, perform), read_tombstones(place, recipe.name)

    def plan(number: int, entry: SourceEntry) -> Callable[..., Stage]:
        return documents_plan(entry, lock, number, statistics.get(entry.source.name))

    settled = NOTHING
    if settle:
        asked = partial(find_settled, place, recipe, sources, len(lock.generations))
        settled = asked(lambda number, entry: plan(number, entry)(with_parts=False), tombstones)
    [corpus] = perform(settled.corpora[-1:]) if settled.number else [None]
    stages = [
        from_raw_or_store(
            place, entry.source.name, readable(lock, entry, lock.generations[number - 1]), plan(number, entry)
        )
        for number, entry in sources[len(settled.documents) :]
    ]
    documents = [*settled.documents, *(perform(stages) if stages else ())]
    return Parsed(sources=sources, documents=documents, tombstones=tombstones, settled=settled, corpus=corpus)


def make_corpora(
    place: Place, recipe: Recipe, lock: Lock, parsed: Parsed, perform: Perform
) -> Iterator[tuple[int, Manifest]]:
    """Yield the corpus of each generation with its number; of settled ones the last, and those of the vocabulary."""
    settled, corpus = parsed.settled, parsed.corpus
    for stage in settled.corpora[lock.vocabulary_generation - 1 : -1]:
        [earlier] = published(place, [stage])
        yield settled.corpora.index(stage) + 1, earlier
        if earlier.count_rows("documents"):
            break
    if corpus is not None:
        yield settled.number, corpus
    inputs, generations = generations_of(place, settled, parsed.sources, parsed.documents)
    new, documents = parsed.sources[len(inputs) :], parsed.documents[len(inputs) :]
    signatures = perform([plan_signatures(manifest, recipe.duplicates) for manifest in documents]) if new else []
    inputs += inputs_of(new, documents, signatures)
    for number in range(settled.number + 1, len(lock.generations) + 1):
        until_now = tuple(item for item in inputs if item.generation <= number)
        forgotten = parsed.tombstones.as_of(number)
        planned = plan_verdicts(recipe.name, until_now, recipe.duplicates, recipe.held_out, forgotten)
        [verdicts] = perform([planned])
        generations.append(Generation(number=number, inputs=until_now, verdicts=verdicts))
        before = corpus if settled.number else None  # else every part is planned, so that any can be built again
        [corpus] = perform([plan_corpus(place, recipe.name, generations, before)])
        yield number, corpus


def judged_sources(parsed: Parsed, lock: Lock) -> list[JudgedSource]:
    """The sources of all generations with what was made of them."""
    return [
        JudgedSource(
            entry=replace(entry, source=with_guessed_names(entry.source, lock.guessed, number)),
            manifest=manifest,
            files=readable(lock, entry, lock.generations[number - 1]),
            quarantine=lock.quarantine,
            generation=number,
        )
        for (number, entry), manifest in zip(parsed.sources, parsed.documents, strict=True)
    ]


def train_model(
    place: Place,
    recipe: Recipe,
    vocabularies: Mapping[str, Manifest],
    shard_sets: Mapping[str, Manifest],
    perform: Perform,
    start: StartModel | None = None,
    teacher: StartModel | None = None,
) -> Manifest | None:
    """Train the model of a recipe, if it asks for one. start: what it begins with; teacher: what it learns from"""
    if recipe.model is None:
        return None
    shards = [shard_sets[name] for names in recipe.model.phases for name in names]
    for problem in (text for manifest in shards if (text := nothing_said(manifest.name, manifest))):
        raise InputError(problem)
    [vocabulary] = {entry.vocabulary for entry in recipe.shards if entry.name in recipe.model.shards}
    entry = recipe.model
    [model] = perform(
        [
            plan_model(
                place, recipe.name, shards, vocabularies[vocabulary], entry.settings, entry.training, start, teacher
            )
        ]
    )
    return model


def learn_tasks(place: Place, recipe: Recipe, model: Manifest, perform: Perform) -> dict[str, Manifest]:
    """Fine-tune the model on the tasks of a recipe, by their names: one after another, because each takes all cores."""
    learnt = {}
    for entry in recipe.tasks:
        asked = model, entry.load_suite(), find_baseline(recipe, entry), entry.settings.control
        [learnt[entry.name]] = perform([plan_tasks(place, recipe.name_artifact(entry.name), *asked)])
    return learnt


def answer_documents(
    place: Place, recipe: Recipe, corpus: Manifest, tasks: Mapping[str, Manifest], perform: Perform
) -> None:
    """Let the fine-tuned models answer the documents that no released model of the recipe has answered."""
    for name, asked in ((entry.name, entry.settings) for entry in recipe.tasks if entry.settings.answers):
        generations = corpus.facts["generations"]
        since = answered_until(place, recipe.name, tasks[name].name, asked.answers, generations)
        perform([plan_answers(place, tasks[name], corpus, since, asked.answers, asked.sources)])
