"""A folder in any language comes through the first run with rules and a vocabulary for its script.

The cases are short texts written for this test, by language: sentences between bars, and two words that only a mark
tells apart. Of Thai, whose sentences end at spaces, no bars are written.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from labelled_cases import cases_of
from small_recipe import run_lock
from tiers import mostly_long

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from corpora.text.sentences.splitter import split_sentences
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe
from flows.run.inputs.folder_defaults import recipe_of_folder
from tokenizers_train.build import read_vocabulary, train_vocabulary
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_by

CASES = cases_of(__file__, "languages")
WHOLE = [code for code, case in CASES.items() if len(case["text"]) > 250]
PAIRS = [code for code, case in CASES.items() if case["pair"]]


def folder_of(folder: Path, texts: Sequence[str]) -> Path:
    folder.mkdir()
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    (folder / "all.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def turned(text: str, number: int) -> list[str]:
    """Texts of the same sentences that begin with another one each."""
    sentences = text.split(" | ")
    return [" ".join([*sentences[n % len(sentences) :], *sentences[: n % len(sentences)]]) for n in range(number)]


def ids(vocabulary: Vocabulary, text: str) -> list[int]:
    return list(vocabulary.tokenizer().encode(text, add_special_tokens=False).ids)


def settings_of(recipe: Recipe) -> VocabularySettings:
    [entry] = recipe.vocabularies
    assert isinstance(entry.settings, VocabularySettings)
    return entry.settings


@pytest.mark.parametrize("algorithm", ["", "wordpiece", "unigram", "byte-bpe"])
@pytest.mark.parametrize("code", mostly_long(PAIRS, 4))
def test_what_a_mark_tells_apart_is_cut_differently(tmp_path: Path, code: str, algorithm: str) -> None:
    """Fails if the vocabulary that is proposed for a folder, whatever the algorithm, makes one word of two."""
    assert len(PAIRS) > 30
    first, second = CASES[code]["pair"]
    texts = turned(CASES[code]["text"], 8)
    given = {"vocabulary.size": "500", **({"vocabulary.algorithm": algorithm} if algorithm else {})}
    recipe = recipe_of_folder(folder_of(tmp_path / "f", texts), tmp_path / "store", given)
    assert recipe.fitted is not None and any("keeps the marks of letters" in why for why in recipe.fitted.why)
    settings = settings_of(recipe)
    words = pa.array([*texts, first, second, f"{first} {second}"], pa.large_string())
    vocabulary = train_vocabulary(count_by(settings.word_rule, words), settings)
    assert ids(vocabulary, first) != ids(vocabulary, second)
    assert ids(vocabulary, f"{texts[0]} {first}.") != ids(vocabulary, f"{texts[0]} {second}.")


@pytest.mark.parametrize("code", mostly_long(WHOLE, 3))
def test_a_folder_comes_through_by_the_rules_of_its_script(tmp_path: Path, code: str) -> None:
    """Fails if rules take spaces, capitals or words of English for granted: a text is dropped, a rule must be
    switched off, sentences are not found, or words are unknown."""
    assert len(WHOLE) == 13
    texts = turned(CASES[code]["text"], 6)
    given = {"vocabulary.size": "600", "duplicates.enabled": "false"}
    recipe = recipe_of_folder(folder_of(tmp_path / "f", texts), tmp_path / "store", given)
    assert recipe.fitted is not None and len(recipe.fitted.why) == 2, recipe.fitted
    done = run_lock(Place(recipe.store), recipe, resolve(recipe, Lock(), StatCache()).lock)
    kept = list(done.corpus.documents())
    assert [document.language for document in kept] == [code] * len(texts)
    assert sorted(document.text for document in kept) == sorted(texts)
    for text in texts:
        raw, expected = text.encode(), 8 if code == "th" else CASES[code]["text"].count("|") + 1
        assert len(split_sentences(text, code)) == expected, [raw[a:b].decode() for a, b in split_sentences(text, code)]
    read = read_vocabulary(done.place, done.outcome.vocabulary)
    assert all(read.special_ids["unk"] not in ids(read, text) for text in texts)


def test_marks_go_only_where_it_is_said() -> None:
    """Fails if `strip_accents` changes what older recipes name, or is taken where it can do nothing."""
    plain = VocabularySettings(size=300)
    assert VocabularySettings(size=300, strip_accents=True) == plain and plain.strip_accents is None
    assert plain.word_rule.settings == {"lowercase": True}
    kept = VocabularySettings(size=300, strip_accents=False)
    assert kept.word_rule.settings == {"lowercase": True, "strip_accents": False}
    assert kept.word_rule.split("Schöne ÉTÉ バス") == ["schöne", "été", "バス"]
    bare = VocabularySettings(size=300, lowercase=False, strip_accents=True)
    assert bare.word_rule.split("Schöne ÉTÉ") == ["Schone", "ETE"]
    bytes_ = VocabularySettings(algorithm="byte-bpe", size=400)
    assert VocabularySettings(algorithm="byte-bpe", size=400, strip_accents=False) == bytes_
    with pytest.raises(InputError, match=r"vocabulary\.strip_accents is true.*keeps every byte.*leave the key out"):
        VocabularySettings(algorithm="byte-bpe", size=400, strip_accents=True)
