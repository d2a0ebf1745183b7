"""A setting given with `--set` takes the place of what it excludes in a folder's recipe.

The law: no message asks to leave out a key that the user has not given. Keys come to a folder's recipe as proposals of
its defaults, and as settings that were remembered; both give way. What algorithms do not share is the user's own
choice only if the algorithm is.
"""

import dataclasses
import re
from itertools import permutations
from pathlib import Path

import pytest

from corpora.errors import InputError
from flows.recipes.guessed_fields import FittedDefaults, merge_chosen
from flows.recipes.recipe import Recipe, parse_recipe, render_folder_recipe, with_overrides
from tokenizers_train.vocabularies.settings import GivenVocabulary, VocabularySettings

VALUES = {
    "vocabulary.algorithm": "byte-bpe",
    "vocabulary.size": "700",
    "vocabulary.lowercase": "false",
    "vocabulary.min_frequency": "3",
    "vocabulary.limit_alphabet": "900",
    "vocabulary.unused": "4",
    "vocabulary.max_word_length": "90",
    "vocabulary.special_tokens": '["[A1]"]',
    "vocabulary.character_coverage": "0.9",
    "vocabulary.symbols": '["*"]',
    "vocabulary.strip_accents": "false",
    "vocabulary.path": "/mine",
    "model.start": "/model",
    "source.kind": "bookcorpus",
    "source.encoding": "cp1250",
    "source.books": "true",
    "source.weight": "2",
}
OF_UNIGRAM = ("vocabulary.character_coverage", "vocabulary.symbols")
TRAINED = {"shards.length": "64", "training.phase": "[{steps = 10, batch = 4}]"}
PROPOSED = {
    "english": {},
    "thai": {"vocabulary": {"algorithm": "unigram", "strip_accents": False}, "language": {"keep": []}},
    "turkish books": {"vocabulary": {"lowercase": False, "strip_accents": False}, "source": {"books": True}},
}


def recipe_of(proposed: str, remembered: dict[str, str], given: dict[str, str]) -> Recipe:
    """Return the recipe of a folder as it is made and as it is written down, which are alike."""
    fitted, path = FittedDefaults(looked_at=1, why=("so",), tables=PROPOSED[proposed]), Path("/r.toml")
    of_start = TRAINED if "model.start" in remembered | given else {}
    chosen = merge_chosen(remembered, given | of_start, "f")
    plain = render_folder_recipe("/f", "/store", fitted, chosen)
    recipe, written = parse_recipe(plain, path, chosen), parse_recipe(with_overrides(plain, chosen), path, {})
    assert (recipe.vocabularies, recipe.sources) == (written.vocabularies, written.sources)
    return recipe


@pytest.mark.parametrize("key", VALUES)
@pytest.mark.parametrize("proposed", PROPOSED)
def test_no_proposal_excludes_a_setting(proposed: str, key: str) -> None:
    """Fails if a setting is refused because of a key that only the defaults have set."""
    if key in OF_UNIGRAM and proposed != "thai":
        with pytest.raises(InputError, match="unigram alone has it"):
            recipe_of(proposed, {}, {key: VALUES[key]})
        return
    [entry] = recipe_of(proposed, {}, {key: VALUES[key]}).vocabularies
    assert isinstance(entry.settings, GivenVocabulary) == (key in ("vocabulary.path", "model.start"))
    assert entry.settings.lowercase is None or key not in ("vocabulary.path", "model.start")


def test_every_key_of_a_vocabulary_is_tried() -> None:
    named = {key.removeprefix("vocabulary.") for key in VALUES}
    assert {field.name for kind in (VocabularySettings, GivenVocabulary) for field in dataclasses.fields(kind)} <= named


@pytest.mark.parametrize(("older", "newer"), [*permutations(VALUES, 2)])
def test_a_newer_setting_replaces_one_that_is_remembered(older: str, newer: str) -> None:
    """Fails if a message is about a setting of an earlier run instead of the one that the user has just given."""
    algorithm = {"vocabulary.algorithm": "unigram"} if older in OF_UNIGRAM else {}
    message = ""
    try:
        recipe_of("english", algorithm | {older: VALUES[older]}, {newer: VALUES[newer]})
    except InputError as error:
        message = str(error)
    name = newer.rpartition(".")[2]
    assert not message or re.search(rf"(vocabulary\.{name} is|has no key '{name}')", message)
