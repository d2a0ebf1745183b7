"""The run, as one page.

    for all generations of raw files, side by side:
        documents    parse, clean, filter          one artifact a source and generation
        signatures   sketch every document         one artifact a source and generation
    for each generation, on what has come up to it:
        verdicts     revisions, forgets, duplicates, the held-out split
        corpus       what stays, what goes
    once, on the vocabulary's generation:
        counts       words
        vocabulary   WordPiece
    for the whole corpus:
        tokens       every document tokenised
        shards       examples

How a stage is built is not told here: `perform` is given stages that may be built side by side and returns
their manifests. Under Prefect it runs tasks (`tasks.py`); for `cloze plan` it only looks (`planning.py`);
in a test it may build right here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from corpora.build import Corpus, Generation, plan_corpus
from corpora.documents import check_damage, plan_documents
from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.duplicates.candidates import Input
from corpora.errors import InputError
from corpora.sources.source import RawFile
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import Stage, survey_stage
from corpora.tombstones import read_tombstones
from flows.lock import Lock
from flows.recipe import Recipe, SourceEntry
from shards.build import plan_shards
from shards.tokens import plan_tokens
from tokenizers_train.build import plan_counts, plan_vocabulary, read_vocabulary

Perform = Callable[[Sequence[Stage]], list[Manifest]]

STAGES = ("documents", "signatures", "verdicts", "corpora", "counts", "vocabularies", "tokens", "shards")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run built: the newest corpus, its vocabulary and shards."""

    documents: tuple[Manifest, ...]
    corpus: Manifest
    vocabulary: Manifest
    shards: Manifest


def run_recipe(place: Place, recipe: Recipe, lock: Lock, perform: Perform) -> Outcome:
    """Everything that a recipe asks for, stage by stage. What the store has already is not built again."""
    born = [
        (number, entry)
        for number, files in enumerate(lock.generations, 1)
        for entry in recipe.sources
        if entry.source.name in files
    ]
    documents = perform([documents_stage(place, entry, lock.generations[number - 1]) for number, entry in born])
    for (_, entry), manifest in zip(born, documents, strict=True):
        check_damage(manifest, entry.documents)
    signatures = perform([plan_signatures(manifest, recipe.duplicates) for manifest in documents])
    inputs = tuple(
        Input(generation=number, priority=entry.priority, documents=parsed, signatures=sketched)
        for (number, entry), parsed, sketched in zip(born, documents, signatures, strict=True)
    )
    generations: list[Generation] = []
    tombstones = read_tombstones(place, recipe.name)
    for number in range(1, len(lock.generations) + 1):
        known = tuple(item for item in inputs if item.generation <= number)
        forgotten = tombstones.until(number)
        planned = plan_verdicts(recipe.name, known, recipe.duplicates, recipe.held_out, forgotten)
        [verdicts] = perform([planned])
        generations.append(Generation(number=number, inputs=known, verdicts=verdicts))
        [corpus] = perform([plan_corpus(place, recipe.name, generations)])
        if number == lock.vocabulary_generation:
            [counts] = perform([plan_counts(Corpus(place, corpus), recipe.vocabulary)])
            weights = {entry.source.name: entry.weight for entry in recipe.sources}
            [vocabulary] = perform([plan_vocabulary(recipe.name, counts, recipe.vocabulary, weights)])
    [tokens] = perform([plan_tokens(Corpus(place, corpus), vocabulary, recipe.seed)])
    words = read_vocabulary(place, vocabulary)
    [shards] = perform([plan_shards(Corpus(place, corpus), tokens, vocabulary, words, recipe.shards)])
    return Outcome(documents=tuple(documents), corpus=corpus, vocabulary=vocabulary, shards=shards)


def documents_stage(place: Place, entry: SourceEntry, files: Mapping[str, Sequence[RawFile]]) -> Stage:
    """The documents stage of one source and generation.

    Raw files of an older generation may be gone: then its documents must stand in the store, whole.
    """
    raw = files[entry.source.name]
    gone = [file.name for file in raw if not file.path]
    if not gone:
        return plan_documents(entry.source, raw, entry.documents)
    stage = plan_documents(entry.source, raw, entry.documents, cut=False)
    if survey_stage(place, stage).manifest is None:
        raise InputError(
            f"Source {entry.source.name!r}: {len(gone)} raw files of an older generation are gone (first: {gone[0]}), "
            "and their documents are not in the store with these settings. Bring the files back, or delete the lock "
            "beside the recipe to start again from the files that are there."
        )
    return stage
