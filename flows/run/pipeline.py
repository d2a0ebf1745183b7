"""The run, as one page. A generation is the raw files that one run found new.

    for all generations of raw files, at the same time:
        documents    parse, clean, filter          one artifact per source and generation
        signatures   sketch every document         one artifact per source and generation
    for each generation, on all documents up to it:
        verdicts     revisions, forgets, duplicates, the held-out split
        corpus       which documents stay, and which go
    once, on the vocabulary's generation, or the first after it that has a document:
        counts       words, added up in `totals` if there are many parts
        vocabulary   trained on them, or given     one artifact per [[vocabulary]]
    for the whole corpus:
        measures     how well each vocabulary fits those words, built at the same time as the tokens
        tokens       every document tokenised      one artifact per vocabulary, its parts merged if they are many
        shards       examples                      one artifact per [[shards]]
        model        weights, learnt phase by phase
        tasks        the model fine-tuned and judged      one artifact per [[task]]
        answers      new documents, by the tasks' models   one artifact per [[task]] that asks for them

`stage_kinds.py` has everything else about each stage. How a stage is built is not decided here: `perform` is given
stages that may be built at the same time, and returns their manifests. In a run each is a task
(`orchestration/stages.py`); for `cloze plan` it only looks (`plan_run.py`); in a test it may build them in the same
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
from flows.run.example_stages import Perform, build_shard_sets, load_given_vocabularies, make_vocabularies
from flows.run.faults.rule_limits import JudgedSource, refuse_bad_sources
from flows.run.inputs.start_model import find_baseline, fit_to_vocabulary, get_teacher, with_start_model
from flows.run.record.ledger_balance import explain_no_examples
from flows.run.record.releases import find_last_answered
from flows.run.settled_generations import (
    NOTHING_SETTLED,
    NumberedSources,
    SettledGenerations,
    build_inputs,
    find_settled,
    read_published,
    read_settled_inputs,
)
from flows.run.source_stages import build_documents_plan, list_readable, make_statistics, plan_from_raw_or_store
from trainer.build import plan_model
from trainer.start_weights import StartModel
from trainer.tasks.build import plan_tasks


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of a run: the manifests (descriptions) of its artifacts (stored stage results).

    Attributes:
        documents: Manifests of the parsed documents, one for each source and generation (the raw files that one run
            added).
        corpus: Manifest of the corpus of all documents.
        vocabularies, shard_sets, tasks: Manifests by the names of their tables in the recipe.
        settled: Folders of earlier runs' artifacts that were reused without checking their files.
        model: Manifest of the model; None if the recipe trains no model.
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
        """The manifest of the recipe's first vocabulary."""
        return next(iter(self.vocabularies.values()))

    @property
    def shards(self) -> Manifest:
        """The manifest of the recipe's first shard set."""
        return next(iter(self.shard_sets.values()))


def run_recipe(
    place: Place,
    recipe: Recipe,
    lock: Lock,
    perform: Perform,
    tell: Callable[[str], None] = lambda line: None,
    settle: bool = False,
) -> Outcome:
    """Build all stages of a recipe, reusing results that are already in the store.

    Args:
        place: The store.
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run), with the files' current paths.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.
        tell: Called with a warning for each source that loses many documents to filter rules, but is too small to stop
            the run.
        settle: True to reuse the results of earlier generations (the raw files that one run added) without checking
            their files, if the store has a corpus of them. See `settled_generations.py`.

    Returns:
        The manifests of everything that was built or reused.

    Raises:
        InputError: If raw files or the recipe's models are missing, or filter rules drop too much of a source.
        Damaged: If a file in the store is damaged. Exceptions raised by `perform` are passed on.
    """
    recipe, start = with_start_model(recipe, lock)
    existing = load_given_vocabularies(recipe)
    start = start and fit_to_vocabulary(start, recipe, existing)
    parsed = make_documents(place, recipe, lock, perform, settle)
    refuse_bad_sources(place, list_judged_sources(parsed, lock), recipe.privacy.samples, tell, lock.accepted)
    vocabularies, measures = dict[str, Manifest](), list[Stage]()
    for number, corpus in make_corpora(place, recipe, lock, parsed, perform):
        last = number == len(lock.generations)
        if not vocabularies and number >= lock.vocabulary_generation and (corpus.count_rows("documents") or last):
            vocabularies, measures = make_vocabularies(recipe, Corpus(place, corpus), existing, perform)
    shard_sets = build_shard_sets(recipe, Corpus(place, corpus), vocabularies, perform, parsed.corpus, measures)
    model = train_model(place, recipe, vocabularies, shard_sets, perform, start, get_teacher(recipe, lock))
    tasks = finetune_tasks(place, recipe, model, perform) if model is not None else {}
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
class ParsedSources:
    """The sources of all generations (the raw files that one run added), with the documents parsed from them.

    Attributes:
        sources: Pairs of a generation number and a source.
        documents: Manifest (stored description) of the documents of each pair, in the same order.
        tombstones: The documents to delete.
        settled: The earlier generations (settled ones). Their results are reused without checking their files.
        corpus: Manifest of the corpus of these generations; None if there are none.
    """

    sources: NumberedSources
    documents: Sequence[Manifest]
    tombstones: Tombstones
    settled: SettledGenerations = NOTHING_SETTLED
    corpus: Manifest | None = None


def make_documents(place: Place, recipe: Recipe, lock: Lock, perform: Perform, settle: bool = False) -> ParsedSources:
    """Parse the documents of all sources, one artifact (stored result) for each source and generation.

    A generation is the raw files that one run added.

    Args:
        place: The store.
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run), with the files' current paths.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.
        settle: True to reuse the results of earlier generations without checking their files, if the store has a corpus
            of them.

    Raises:
        InputError: If raw files are gone, and what was parsed from them is not in the store.
        Damaged: If a file in the store is damaged. Exceptions raised by `perform` are passed on.
    """
    sources = [
        (number, entry)
        for number, files in enumerate(lock.generations, 1)
        for entry in recipe.sources
        if list_readable(lock, entry, files)
    ]
    statistics, tombstones = make_statistics(place, recipe, lock, perform), read_tombstones(place, recipe.name)

    def plan(number: int, entry: SourceEntry) -> Callable[..., Stage]:
        return build_documents_plan(entry, lock, number, statistics.get(entry.source.name))

    settled = NOTHING_SETTLED
    if settle:
        asked = partial(find_settled, place, recipe, sources, len(lock.generations))
        settled = asked(lambda number, entry: plan(number, entry)(with_parts=False), tombstones)
    [corpus] = perform(settled.corpora[-1:]) if settled.number else [None]
    stages = [
        plan_from_raw_or_store(
            place,
            entry.source.name,
            list_readable(lock, entry, lock.generations[number - 1]),
            plan(number, entry),
        )
        for number, entry in sources[len(settled.documents) :]
    ]
    documents = [*settled.documents, *(perform(stages) if stages else ())]
    return ParsedSources(sources=sources, documents=documents, tombstones=tombstones, settled=settled, corpus=corpus)


def make_corpora(
    place: Place, recipe: Recipe, lock: Lock, parsed: ParsedSources, perform: Perform
) -> Iterator[tuple[int, Manifest]]:
    """Build the corpus of each generation (the raw files that one run added), and yield (number, manifest) pairs.

    A corpus contains the documents of all generations up to its number. Settled generations (see `ParsedSources`) are
    reused without checking their files. Of their corpora, only the last one is yielded, preceded by those up to the
    first one with documents that the vocabulary can be trained on.

    Args:
        place: The store.
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run).
        parsed: The documents of all generations.
        perform: Function that builds the given stages, and returns their manifests in the same order.
    """
    settled, corpus = parsed.settled, parsed.corpus
    for stage in settled.corpora[lock.vocabulary_generation - 1 : -1]:
        [earlier] = read_published(place, [stage])
        yield settled.corpora.index(stage) + 1, earlier
        if earlier.count_rows("documents"):
            break
    if corpus is not None:
        yield settled.number, corpus
    inputs, generations = read_settled_inputs(place, settled, parsed.sources, parsed.documents)
    new, documents = parsed.sources[len(inputs) :], parsed.documents[len(inputs) :]
    signatures = perform([plan_signatures(manifest, recipe.duplicates) for manifest in documents]) if new else []
    inputs += build_inputs(new, documents, signatures)
    for number in range(settled.number + 1, len(lock.generations) + 1):
        until_now = tuple(item for item in inputs if item.generation <= number)
        forgotten = parsed.tombstones.as_of(number)
        planned = plan_verdicts(recipe.name, until_now, recipe.duplicates, recipe.held_out, forgotten)
        [verdicts] = perform([planned])
        generations.append(Generation(number=number, inputs=until_now, verdicts=verdicts))
        before = corpus if settled.number else None  # else every part is planned, so that any can be built again
        [corpus] = perform([plan_corpus(place, recipe.name, generations, before)])
        yield number, corpus


def list_judged_sources(parsed: ParsedSources, lock: Lock) -> list[JudgedSource]:
    """List all (source, generation) pairs with their documents, to check how much the filter rules dropped.

    A generation is the raw files that one run added. The list has the order of `parsed.sources`.

    Args:
        parsed: The documents of all generations.
        lock: The recipe's lock (the raw files of each run).
    """
    return [
        JudgedSource(
            entry=replace(entry, source=with_guessed_names(entry.source, lock.guessed, number)),
            manifest=manifest,
            files=list_readable(lock, entry, lock.generations[number - 1]),
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
    """Train the model of a recipe, and return its manifest, or None if the recipe does not train a model.

    Args:
        place: The store.
        recipe: The recipe.
        vocabularies, shard_sets: Manifests (stored descriptions), by the names of their tables in the recipe.
        perform: Function that builds the given stages, and returns their manifests in the same order.
        start: The model that training starts from; None for random weights.
        teacher: The teacher model for distillation; None if there is none.

    Raises:
        InputError: If a shard set has no examples to train on.
    """
    if recipe.model is None:
        return None
    shards = [shard_sets[name] for names in recipe.model.phases for name in names]
    for problem in (text for manifest in shards if (text := explain_no_examples(manifest.name, manifest))):
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


def finetune_tasks(place: Place, recipe: Recipe, model: Manifest, perform: Perform) -> dict[str, Manifest]:
    """Fine-tune the model on each task of a recipe, one after another, because each uses all cores.

    Args:
        place: The store.
        recipe: The recipe.
        model: Manifest (stored description) of the model to fine-tune.
        perform: Function that builds the given stages, and returns their manifests in the same order.

    Returns:
        The manifests of the fine-tuned models, by the names of the tasks in the recipe.

    Raises:
        InputError: If a labeled file or a baseline model is missing.
    """
    learnt = {}
    for entry in recipe.tasks:
        asked = model, entry.load_suite(), find_baseline(recipe, entry), entry.settings.control
        [learnt[entry.name]] = perform([plan_tasks(place, recipe.name_artifact(entry.name), *asked)])
    return learnt


def answer_documents(
    place: Place, recipe: Recipe, corpus: Manifest, tasks: Mapping[str, Manifest], perform: Perform
) -> None:
    """Make and store predictions for the documents that no released model of the recipe has processed yet.

    Args:
        place: The store.
        recipe: The recipe.
        corpus: Manifest of the corpus.
        tasks: Manifests of the fine-tuned models, by task name. Tasks without the setting `answers` are skipped.
        perform: Function that builds the given stages, and returns their manifests in the same order.
    """
    for name, asked in ((entry.name, entry.settings) for entry in recipe.tasks if entry.settings.answers):
        generations = corpus.facts["generations"]
        since = find_last_answered(place, recipe.name, tasks[name].name, asked.answers, generations)
        perform([plan_answers(place, tasks[name], corpus, since, asked.answers, asked.sources)])
