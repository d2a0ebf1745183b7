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
        measures     how well it fits them             one artifact a [[vocabulary]]
    for the whole corpus:
        tokens       every document tokenised          one artifact a vocabulary, its parts merged where they are many
        shards       examples                          one artifact a [[shards]]
        model        weights, learnt phase by phase
        tasks        the model fine-tuned and judged      one artifact a [[task]]
        answers      new documents, by the tasks' models   one artifact a [[task]] that asks for them

How a stage is built is not decided here: `perform` is given stages that may be built side by side and returns
their manifests. Under Prefect it runs tasks (`orchestration/tasks.py`); for `cloze plan` it only looks (`plan.py`);
in a test it may build them in the same process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from corpora.build import Corpus, Generation, plan_corpus
from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.errors import InputError
from corpora.judging.documents import plan_documents
from corpora.judging.inputs import read_inputs
from corpora.judging.statistics_build import needs_statistics, plan_statistics
from corpora.sources.contract import RawFile
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, read_manifest, survey_stage
from corpora.tombstones import Tombstones, read_tombstones
from flows.recipes.guesses.fields import reading
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.answers_build import plan_answers
from flows.run.faults.rule_limits import JudgedSource, refuse_bad_sources
from flows.run.inputs.start_model import begun, find_baseline, fitting, taught
from flows.run.record.counts_text import counted
from flows.run.record.example_shares import nothing_said
from flows.run.record.releases import answered_until
from flows.run.settled import (
    NOTHING,
    NumberedSources,
    SettledGenerations,
    find_settled,
    generations_of,
    inputs_of,
    published,
)
from shards.build import plan_shards
from shards.merges import plan_merges
from shards.tokens import plan_tokens
from tokenizers_train.build import plan_brought, plan_counts, plan_totals, plan_vocabulary, read_vocabulary
from tokenizers_train.measures.build import plan_measures
from tokenizers_train.vocabularies.settings import BroughtVocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary
from trainer.build import plan_model
from trainer.jobs.start import Start
from trainer.tasks.build import plan_tasks

Perform = Callable[[Sequence[Stage]], list[Manifest]]

STAGES = (
    "fits",
    "documents",
    "signatures",
    "verdicts",
    "corpora",
    "counts",
    "totals",
    "vocabularies",
    "measures",
    "tokens",
    "merges",
    "shards",
    "models",
    "tasks",
    "answers",
)
OF_MANY_PARTS = ("totals", "merges")  # stages that only a corpus of hundreds of parts has


def stages_after(kind: str) -> tuple[str, ...]:
    """The stages that come after those of a kind.

    >>> stages_after("tokens")
    ('shards', 'models', 'tasks', 'answers')
    """
    return tuple(later for later in STAGES[STAGES.index(kind) + 1 :] if later not in OF_MANY_PARTS)


def stages_without(*kinds: str) -> tuple[str, ...]:
    """The stages of a recipe that has none of these kinds: it fits nothing, or trains no model.

    Raises ValueError for a kind that is not a stage.
    """
    for kind in kinds:
        STAGES.index(kind)
    missing = {*kinds, *OF_MANY_PARTS, *(("tasks", "answers") if "models" in kinds else ())}
    return tuple(kind for kind in STAGES if kind not in missing)


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
    answers: Mapping[str, Manifest] = field(default_factory=dict)

    @property
    def vocabulary(self) -> Manifest:
        """The first vocabulary of the recipe."""
        return next(iter(self.vocabularies.values()))

    @property
    def shards(self) -> Manifest:
        """The first shard set of the recipe."""
        return next(iter(self.shard_sets.values()))

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """All of them, in the order in which they depend on each other."""
        trained = (self.model,) if self.model is not None else ()
        made = (*self.documents, self.corpus, *self.vocabularies.values(), *self.shard_sets.values(), *trained)
        return (*made, *self.tasks.values(), *self.answers.values())


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
    settle: earlier generations are taken as they are, where the store holds a corpus of them whole (`settled.py`)
    """
    recipe, start = begun(recipe, lock)
    existing = {e.name: brought(e.settings) for e in recipe.vocabularies if isinstance(e.settings, BroughtVocabulary)}
    start = start and fitting(start, recipe, existing)
    parsed = make_documents(place, recipe, lock, perform, settle)
    refuse_bad_sources(place, judged_sources(parsed, lock), recipe.privacy.samples, tell)
    vocabularies: dict[str, Manifest] = {}
    for number, corpus in make_corpora(place, recipe, lock, parsed, perform):
        last = number == len(lock.generations)
        if not vocabularies and number >= lock.vocabulary_generation and (corpus.rows("documents") or last):
            vocabularies = make_vocabularies(recipe, Corpus(place, corpus), existing, perform)
    shard_sets = build_shard_sets(recipe, Corpus(place, corpus), vocabularies, perform, parsed.corpus)
    model = train_model(place, recipe, vocabularies, shard_sets, perform, start, taught(recipe, lock))
    tasks = learn_tasks(place, recipe, model, perform) if model is not None else {}
    return Outcome(
        documents=tuple(parsed.documents),
        corpus=corpus,
        vocabularies=vocabularies,
        shard_sets=shard_sets,
        settled=parsed.settled.folders,
        model=model,
        tasks=tasks,
        answers=answer_documents(place, recipe, corpus, tasks, perform),
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
        settled = asked(lambda number, entry: plan(number, entry)(cut=False), tombstones)
    [corpus] = perform(settled.corpora[-1:]) if settled.number else [None]
    stages = [
        from_raw_or_store(
            place, entry.source.name, readable(lock, entry, lock.generations[number - 1]), plan(number, entry)
        )
        for number, entry in sources[len(settled.documents) :]
    ]
    documents = [*published(place, settled.documents), *(perform(stages) if stages else ())]
    return Parsed(sources=sources, documents=documents, tombstones=tombstones, settled=settled, corpus=corpus)


def make_corpora(
    place: Place, recipe: Recipe, lock: Lock, parsed: Parsed, perform: Perform
) -> Iterator[tuple[int, Manifest]]:
    """Yield the corpus of each generation with its number; of settled ones the last, and those of the vocabulary."""
    settled, corpus = parsed.settled, parsed.corpus
    for stage in settled.corpora[lock.vocabulary_generation - 1 : -1]:
        [earlier] = published(place, [stage])
        yield settled.corpora.index(stage) + 1, earlier
        if earlier.rows("documents"):
            break
    if corpus is not None:
        yield settled.number, corpus
    inputs, generations = generations_of(place, settled, parsed.sources, parsed.documents)
    new, documents = parsed.sources[len(inputs) :], parsed.documents[len(inputs) :]
    signatures = perform([plan_signatures(manifest, recipe.duplicates) for manifest in documents]) if new else []
    inputs += inputs_of(new, documents, signatures)
    for number in range(settled.number + 1, len(lock.generations) + 1):
        until_now = tuple(item for item in inputs if item.generation <= number)
        forgotten = parsed.tombstones.until(number)
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
            entry=replace(entry, source=reading(entry.source, lock.guessed, number)),
            manifest=manifest,
            files=readable(lock, entry, lock.generations[number - 1]),
            quarantine=lock.quarantine,
        )
        for (number, entry), manifest in zip(parsed.sources, parsed.documents, strict=True)
    ]


def make_vocabularies(
    recipe: Recipe, corpus: Corpus, existing: Mapping[str, Vocabulary], perform: Perform
) -> dict[str, Manifest]:
    """The vocabularies of a recipe by their names. Words are counted once for all that count them alike.

    existing: vocabularies that are brought, not trained
    """
    weights = {entry.source.name: entry.weight for entry in recipe.sources}
    counts = count_words(recipe, corpus, existing, perform)
    stages = []
    for entry in recipe.vocabularies:
        name = recipe.artifact_name(entry.name)
        if isinstance(entry.settings, BroughtVocabulary):
            stages.append(plan_brought(name, existing[entry.name]))
        else:
            stages.append(plan_vocabulary(name, counts[entry.name], entry.settings, weights))
    vocabularies = dict(zip((entry.name for entry in recipe.vocabularies), perform(stages), strict=True))
    measured = [plan_measures(vocabularies[name], counted) for name, counted in counts.items()]
    if measured:
        perform(measured)
    return vocabularies


def count_words(
    recipe: Recipe, corpus: Corpus, existing: Mapping[str, Vocabulary], perform: Perform
) -> dict[str, Manifest]:
    """The word counts for each vocabulary by its name: one artifact for each rule of words.

    existing: vocabularies that are brought; nothing is counted for one whose rule of words is unknown
    """
    wanted: dict[str, Stage] = {}
    for entry in recipe.vocabularies:
        settings = existing[entry.name] if isinstance(entry.settings, BroughtVocabulary) else entry.settings
        if (rule := settings.word_rule) is not None:
            wanted[entry.name] = plan_counts(corpus, rule, recipe.artifact_name(entry.name))
    first = {stage.fingerprint: stage for stage in reversed(wanted.values())}
    counted = dict(zip(first, perform(list(first.values())), strict=True)) if first else {}
    counted |= merged(counted, plan_totals, perform)
    return {name: counted[stage.fingerprint] for name, stage in wanted.items()}


def merged(
    manifests: Mapping[str, Manifest], plan: Callable[[Manifest], Stage | None], perform: Perform
) -> dict[str, Manifest]:
    """What artifacts of many parts were merged into, by the names under which they are given; others are left out."""
    stages = {name: stage for name, manifest in manifests.items() if (stage := plan(manifest)) is not None}
    return dict(zip(stages, perform(list(stages.values())), strict=True)) if stages else {}


def brought(settings: BroughtVocabulary) -> Vocabulary:
    """Load a vocabulary that exists already. Raises InputError where it cannot serve a masked language model."""
    vocabulary = load_vocabulary(Path(settings.path), settings.lowercase)
    vocabulary.require_roles(settings.path)
    return vocabulary.framing()


def build_shard_sets(
    recipe: Recipe,
    corpus: Corpus,
    vocabularies: Mapping[str, Manifest],
    perform: Perform,
    before: Manifest | None = None,
) -> dict[str, Manifest]:
    """The shard sets of a recipe by their names. The corpus is tokenised once for all sets of one vocabulary.

    before: the corpus of earlier generations, if they are settled; what was made of it is continued
    """
    used = {entry.vocabulary: vocabularies[entry.vocabulary] for entry in recipe.shards}
    older = Corpus(corpus.place, before) if before is not None else None

    def tokens_of(corpus: Corpus) -> list[Stage]:
        return [plan_tokens(corpus, vocabulary, recipe.seed) for vocabulary in used.values()]

    def shards_of(corpus: Corpus, tokens: Mapping[str, Manifest], merges: Mapping[str, Manifest]) -> list[Stage]:
        return [
            plan_shards(
                corpus,
                tokens[entry.vocabulary],
                used[entry.vocabulary],
                read_vocabulary(corpus.place, used[entry.vocabulary]),
                entry.settings,
                recipe.artifact_name(entry.name),
                merges.get(entry.vocabulary),
            )
            for entry in recipe.shards
        ]

    stages = continued(corpus.place, tokens_of(corpus), tokens_of(older) if older is not None else [])
    tokens = dict(zip(used, perform(stages), strict=True))
    asked = shards_of(corpus, tokens, merged(tokens, plan_merges, perform))
    made: list[Stage] = []
    earlier = {name: stage.before for name, stage in zip(used, stages, strict=True) if stage.before is not None}
    if older is not None and len(earlier) == len(stages):
        merges = {name: stage for name, manifest in earlier.items() if (stage := plan_merges(manifest)) is not None}
        found = {name: read_manifest(corpus.place, stage.folder) for name, stage in merges.items()}
        fewer = {name: manifest for name, manifest in found.items() if manifest is not None}
        made = shards_of(older, earlier, fewer) if len(fewer) == len(merges) else []
    shard_sets = perform(continued(corpus.place, asked, made))
    return dict(zip((entry.name for entry in recipe.shards), shard_sets, strict=True))


def continued(place: Place, stages: Sequence[Stage], earlier: Sequence[Stage]) -> list[Stage]:
    """These stages, each continuing the artifact of the earlier one in its place, if the store has that."""
    found = [read_manifest(place, stage.folder) for stage in earlier] or [None] * len(stages)
    return [replace(stage, before=manifest) for stage, manifest in zip(stages, found, strict=True)]


def train_model(
    place: Place,
    recipe: Recipe,
    vocabularies: Mapping[str, Manifest],
    shard_sets: Mapping[str, Manifest],
    perform: Perform,
    start: Start | None = None,
    teacher: Start | None = None,
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
        asked = model, entry.suite(), find_baseline(recipe, entry), entry.settings.control
        [learnt[entry.name]] = perform([plan_tasks(place, recipe.artifact_name(entry.name), *asked)])
    return learnt


def answer_documents(
    place: Place, recipe: Recipe, corpus: Manifest, tasks: Mapping[str, Manifest], perform: Perform
) -> dict[str, Manifest]:
    """Let the fine-tuned models answer the documents that no released model of the recipe has answered."""
    answers = {}
    for entry in recipe.tasks:
        asked = entry.settings
        if asked.answers:
            since = answered_until(place, recipe.name, tasks[entry.name].name, asked.answers, corpus)
            stage = plan_answers(place, tasks[entry.name], corpus, since, asked.answers, asked.sources)
            [answers[entry.name]] = perform([stage])
    return answers


def source_statistics(place: Place, recipe: Recipe, lock: Lock, perform: Perform) -> dict[str, Manifest]:
    """The statistics that each source needs before its documents, by name, from the source's first generation."""
    stages = {}
    for entry in recipe.sources:
        name = entry.source.name
        by_generation = ((n, readable(lock, entry, files)) for n, files in enumerate(lock.generations, 1))
        number, first = next(((n, raw_files) for n, raw_files in by_generation if raw_files), (0, ()))
        if first and needs_statistics(entry.documents):
            plan = partial(
                plan_statistics,
                reading(entry.source, lock.guessed, number),
                first,
                entry.documents,
                read_inputs(entry.documents),
                quarantine=lock.quarantine,
            )
            stages[name] = from_raw_or_store(place, name, first, plan)
    return dict(zip(stages, perform(list(stages.values())), strict=True)) if stages else {}


def readable(lock: Lock, entry: SourceEntry, files: Mapping[str, Sequence[RawFile]]) -> tuple[RawFile, ...]:
    """The raw files of a source in a generation, except those that the lock leaves out."""
    left_out = lock.left_out_of(entry.source)
    return tuple(file for file in files.get(entry.source.name, ()) if file.sha256 not in left_out)


def documents_plan(
    entry: SourceEntry, lock: Lock, number: int, statistics: Manifest | None = None
) -> Callable[..., Stage]:
    """Return what plans the documents stage of one source and generation, with `cut=False` without its parts."""
    settings = entry.documents
    return partial(
        plan_documents,
        reading(entry.source, lock.guessed, number),
        lock.generations[number - 1][entry.source.name],
        settings,
        quarantine=lock.quarantine,
        inputs=read_inputs(settings),
        statistics=statistics,
        left_out=lock.left_out_of(entry.source),
    )


def from_raw_or_store(place: Place, name: str, raw: Sequence[RawFile], plan: Callable[..., Stage]) -> Stage:
    """Plan a stage that reads raw files. Those of an older generation may be gone if the store has the stage's results.

    plan: makes the stage, with `cut=False` without its parts. Raises InputError where both are gone.
    """
    gone = [file.name for file in raw if not file.path]
    if not gone:
        return plan()
    lost = counted(len(gone), "raw file of an older generation is gone", "raw files of an older generation are gone")
    stage = plan(cut=False)
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
