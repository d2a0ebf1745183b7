"""The stages from a corpus to examples: words counted, vocabularies trained or given, documents tokenised, shards
written.

`perform` is given stages that may be built at the same time, and returns their manifests in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corpora.build import Corpus
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, read_manifest
from flows.recipes.recipe import Recipe
from shards.build import plan_shards
from shards.tokens import plan_merges, plan_tokens
from tokenizers_train.build import plan_counts, plan_given_vocabulary, plan_totals, plan_vocabulary, read_vocabulary
from tokenizers_train.measures.build import plan_measures
from tokenizers_train.vocabularies.settings import GivenVocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary
from tokenizers_train.words.counts import WordRule

Perform = Callable[[Sequence[Stage]], list[Manifest]]


def make_vocabularies(
    recipe: Recipe, corpus: Corpus, existing: Mapping[str, Vocabulary], perform: Perform
) -> tuple[dict[str, Manifest], list[Stage]]:
    """Train the vocabularies of a recipe, and store the existing vocabularies that it refers to.

    Words are counted once for all vocabularies that use the same counting rule.

    Args:
        recipe: The recipe, with the tables of the vocabularies.
        corpus: The corpus to train on.
        existing: Existing vocabularies that the recipe uses, by the name of their table.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.

    Returns:
        The manifests of the vocabularies by the name of their table, and the planned stages that will measure the
        vocabularies.
    """
    weights = {entry.source.name: entry.weight for entry in recipe.sources}
    counts = count_words(recipe, corpus, existing, perform)
    stages = []
    for entry in recipe.vocabularies:
        name = recipe.name_artifact(entry.name)
        if isinstance(entry.settings, GivenVocabulary):
            stages.append(plan_given_vocabulary(name, existing[entry.name]))
        else:
            stages.append(plan_vocabulary(name, counts[entry.name], entry.settings, weights))
    vocabularies = dict(zip((entry.name for entry in recipe.vocabularies), perform(stages), strict=True))
    return vocabularies, [plan_measures(vocabularies[name], counted) for name, counted in counts.items()]


def count_words(
    recipe: Recipe, corpus: Corpus, existing: Mapping[str, Vocabulary], perform: Perform
) -> dict[str, Manifest]:
    """Count the words of a corpus for each vocabulary, once for all vocabularies with the same counting rule.

    Args:
        recipe: The recipe, with the tables of the vocabularies.
        corpus: The corpus.
        existing: Existing vocabularies that the recipe uses, by the name of their table.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.

    Returns:
        The manifests of the word counts, by vocabulary name. Existing vocabularies without a known rule are omitted.
    """
    rules = find_word_rules(recipe, existing)
    wanted = {name: plan_counts(corpus, rule, recipe.name_artifact(name)) for name, rule in rules.items()}
    first = {stage.fingerprint: stage for stage in reversed(wanted.values())}
    counted = dict(zip(first, perform(list(first.values())), strict=True)) if first else {}
    counted |= merge_parts(counted, plan_totals, perform)
    return {name: counted[stage.fingerprint] for name, stage in wanted.items()}


def find_word_rules(recipe: Recipe, existing: Mapping[str, Vocabulary]) -> dict[str, WordRule]:
    """Return the word counting rule of each vocabulary of a recipe, by the name of its table.

    Args:
        recipe: The recipe.
        existing: Existing vocabularies that the recipe uses, by the name of their table. Those without a known rule are
            omitted from the result.
    """
    rules = {}
    for entry in recipe.vocabularies:
        settings = existing[entry.name] if isinstance(entry.settings, GivenVocabulary) else entry.settings
        if (rule := settings.word_rule) is not None:
            rules[entry.name] = rule
    return rules


def merge_parts(
    manifests: Mapping[str, Manifest], plan: Callable[[Manifest], Stage | None], perform: Perform
) -> dict[str, Manifest]:
    """Merge each artifact (stored stage result) that consists of many files into one table.

    Args:
        manifests: Descriptions of the artifacts, by name.
        plan: Function that plans the stage that merges an artifact, or returns None if the artifact has few files.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.

    Returns:
        The manifests of the merged artifacts, by name. Artifacts with few files are omitted.
    """
    stages = {name: stage for name, manifest in manifests.items() if (stage := plan(manifest)) is not None}
    return dict(zip(stages, perform(list(stages.values())), strict=True)) if stages else {}


def load_given_vocabularies(recipe: Recipe) -> dict[str, Vocabulary]:
    """Load the existing vocabularies that a recipe refers to, and return them by the name of their table.

    Raises:
        InputError: If a vocabulary cannot be read, or cannot be used for a masked language model.
    """
    vocabularies = {}
    for name, settings in ((entry.name, entry.settings) for entry in recipe.vocabularies):
        if isinstance(settings, GivenVocabulary):
            vocabulary = load_vocabulary(Path(settings.path), settings.lowercase)
            vocabulary.check_roles(settings.path)
            vocabularies[name] = vocabulary.with_template()
    return vocabularies


def build_shard_sets(
    recipe: Recipe,
    corpus: Corpus,
    vocabularies: Mapping[str, Manifest],
    perform: Perform,
    before: Manifest | None = None,
    other_stages: Sequence[Stage] = (),
) -> dict[str, Manifest]:
    """Tokenize the corpus once for each vocabulary, and write the shard sets (training data) of a recipe.

    Args:
        recipe: The recipe.
        corpus: The corpus of all documents.
        vocabularies: Manifests of the vocabularies, by the name of their table.
        perform: Function that builds the given pipeline stages, and returns their manifests in the same order.
        before: Manifest of the earlier runs' corpus if it is reused. Its tokens and shards are then extended. If None,
            everything is built.
        other_stages: Stages to build in parallel with the tokens.

    Returns:
        The manifests of the shard sets, by the name of their table in the recipe.
    """
    used = {entry.vocabulary: vocabularies[entry.vocabulary] for entry in recipe.shards}
    older = Corpus(corpus.place, before) if before is not None else None
    stages = continue_stages(corpus.place, plan_all_tokens(recipe, corpus, used), plan_all_tokens(recipe, older, used))
    tokens = dict(zip(used, perform([*other_stages, *stages])[len(other_stages) :], strict=True))
    asked = plan_all_shards(recipe, corpus, used, tokens, merge_parts(tokens, plan_merges, perform))
    continues = {name: stage.previous for name, stage in zip(used, stages, strict=True) if stage.previous is not None}
    earlier = (
        plan_earlier_shards(recipe, older, used, continues) if older is not None and len(continues) == len(used) else []
    )
    shard_sets = perform(continue_stages(corpus.place, asked, earlier))
    return dict(zip((entry.name for entry in recipe.shards), shard_sets, strict=True))


def plan_all_tokens(recipe: Recipe, corpus: Corpus | None, vocabularies: Mapping[str, Manifest]) -> list[Stage]:
    """Plan one stage per vocabulary that tokenizes the corpus, in the order of the vocabularies.

    Args:
        recipe: The recipe. Its seed is used.
        corpus: The corpus. If None, the result is [].
        vocabularies: Manifests (stored descriptions) of the vocabularies, by name.
    """
    if corpus is None:
        return []
    return [plan_tokens(corpus, vocabulary, recipe.seed) for vocabulary in vocabularies.values()]


def plan_all_shards(
    recipe: Recipe,
    corpus: Corpus,
    vocabularies: Mapping[str, Manifest],
    tokens: Mapping[str, Manifest],
    merges: Mapping[str, Manifest],
) -> list[Stage]:
    """Plan the stages that write the shard sets (training data) of a recipe, in the order of the recipe.

    Args:
        recipe: The recipe.
        corpus: The corpus that the tokens were made from.
        vocabularies, tokens: Manifests of the vocabularies and tokenized corpora, by vocabulary name.
        merges: Manifests of the merged tokens, by vocabulary name. Tokens in few files are not merged, and have no
            entry.
    """
    return [
        plan_shards(
            corpus,
            tokens[entry.vocabulary],
            vocabularies[entry.vocabulary],
            read_vocabulary(corpus.place, vocabularies[entry.vocabulary]),
            entry.settings,
            recipe.name_artifact(entry.name),
            merges.get(entry.vocabulary),
        )
        for entry in recipe.shards
    ]


def plan_earlier_shards(
    recipe: Recipe, corpus: Corpus, vocabularies: Mapping[str, Manifest], tokens: Mapping[str, Manifest]
) -> list[Stage]:
    """Plan the shard sets (training data) that earlier runs made from their corpus, so that they can be extended.

    The stages are in the order of the recipe. Returns [] if tokens that were merged are no longer in the store.

    Args:
        recipe: The recipe.
        corpus: The corpus of the earlier runs.
        vocabularies, tokens: Manifests of the vocabularies and of that corpus's tokens, by vocabulary name.
    """
    planned = {name: stage for name, manifest in tokens.items() if (stage := plan_merges(manifest)) is not None}
    merges = {name: read_manifest(corpus.place, stage.folder) for name, stage in planned.items()}
    found = {name: manifest for name, manifest in merges.items() if manifest is not None}
    return plan_all_shards(recipe, corpus, vocabularies, tokens, found) if len(found) == len(merges) else []


def continue_stages(place: Place, stages: Sequence[Stage], earlier: Sequence[Stage]) -> list[Stage]:
    """Return copies of the stages that each extend the stored result of the earlier stage with the same index.

    A stage is built from scratch if its earlier stage has no stored result.

    Args:
        place: The store.
        stages: The stages.
        earlier: One earlier stage per stage, or [] to build all stages from scratch.
    """
    found = [read_manifest(place, stage.folder) for stage in earlier] or [None] * len(stages)
    return [replace(stage, previous=manifest) for stage, manifest in zip(stages, found, strict=True)]
