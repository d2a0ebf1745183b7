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
from small_recipe import prose, run_lock
from tiers import mostly_long

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from corpora.text.sentences.splitter import split_sentences
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import Recipe
from flows.run.inputs.folder_defaults import build_folder_recipe
from tokenizers_train.build import read_vocabulary, train_vocabulary
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_words

CASES = cases_of(__file__, "languages")
WHOLE = [code for code, case in CASES.items() if len(case["text"]) > 250]
PAIRS = [code for code, case in CASES.items() if case["pair"]]

MANY_LETTERS = {
    "zh": "小村庄坐落在河岸上,那里的人们和太阳一起起床。早晨,渔夫们到水上去,中午以前带着鱼回来。" * 30,
    "ja": "小さな村は川の岸にあり、人々は太陽とともに起きます。朝になると漁師たちは水の上に出ます。" * 30,
    "ko": "작은 마을은 강가에 있고 사람들은 해와 함께 일어납니다. 아침이면 어부들이 물로 나갑니다. " * 30,
}


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
    return list(vocabulary.to_tokenizer().encode(text, add_special_tokens=False).ids)


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
    recipe = build_folder_recipe(folder_of(tmp_path / "f", texts), tmp_path / "store", given)
    assert recipe.fitted is not None and any("keeps the marks of letters" in why for why in recipe.fitted.why)
    settings = settings_of(recipe)
    words = pa.array([*texts, first, second, f"{first} {second}"], pa.large_string())
    vocabulary = train_vocabulary(count_words(settings.word_rule, words), settings)
    assert ids(vocabulary, first) != ids(vocabulary, second)
    assert ids(vocabulary, f"{texts[0]} {first}.") != ids(vocabulary, f"{texts[0]} {second}.")


@pytest.mark.parametrize("code", mostly_long(WHOLE, 3))
def test_a_folder_comes_through_by_the_rules_of_its_script(tmp_path: Path, code: str) -> None:
    """Fails if rules take spaces, capitals or words of English for granted: a text is dropped, a rule must be
    switched off, sentences are not found, or words are unknown."""
    assert len(WHOLE) == 13
    texts = turned(CASES[code]["text"], 6)
    given = {"vocabulary.size": "600", "duplicates.enabled": "false"}
    recipe = build_folder_recipe(folder_of(tmp_path / "f", texts), tmp_path / "store", given)
    assert recipe.fitted is not None and len(recipe.fitted.why) == 2, recipe.fitted
    done = run_lock(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock)
    kept = list(done.corpus.iter_documents())
    assert [document.language for document in kept] == [code] * len(texts)
    assert sorted(document.text for document in kept) == sorted(texts)
    for text in texts:
        raw, expected = text.encode(), 8 if code == "th" else CASES[code]["text"].count("|") + 1
        assert len(split_sentences(text, code)) == expected, [raw[a:b].decode() for a, b in split_sentences(text, code)]
    read = read_vocabulary(done.place, done.outcome.vocabulary)
    assert all(read.special_ids["unk"] not in ids(read, text) for text in texts)


@pytest.mark.parametrize(("code", "size"), [(code, "8000") for code in MANY_LETTERS] + [("zh", "4000")])
def test_scripts_of_many_letters_keep_them(tmp_path: Path, code: str, size: str) -> None:
    """Fails if the vocabulary of a script of thousands of letters knows only the first thousand, or has no room."""
    letters = [chr((0xAC00 if code == "ko" else 0x4E00) + 3 * n) for n in range(1_600)]
    words = ["".join(letters[n : n + 4]) for n in range(0, len(letters), 4)]
    texts = [f"{MANY_LETTERS[code]} {' '.join(words[n::6])}" for n in range(6)]
    recipe = build_folder_recipe(folder_of(tmp_path / "f", texts), tmp_path / "store", {"vocabulary.size": size})
    settings = settings_of(recipe)
    counts = count_words(settings.word_rule, pa.array(texts, pa.large_string()))
    vocabulary = train_vocabulary(counts, settings)
    assert not any(vocabulary.special_ids["unk"] in ids(vocabulary, text) for text in texts)


@pytest.mark.parametrize("others", [1, 6])
def test_a_folder_in_two_scripts_has_a_vocabulary_for_both(tmp_path: Path, others: int) -> None:
    """Fails if the words of a part of a folder, be it a sixth, are unknown to the vocabulary of the whole."""
    thai = [text.replace(" ", "") for text in turned(CASES["th"]["text"], others)]
    english = [f"{prose(n, 20)} It is {n}." for n in range(6)]
    recipe = build_folder_recipe(folder_of(tmp_path / "f", [*english, *thai]), tmp_path / "store", {})
    settings = settings_of(recipe)
    counts = count_words(settings.word_rule, pa.array([*english, *thai], pa.large_string()))
    vocabulary = train_vocabulary(counts, settings)
    assert not any(vocabulary.special_ids["unk"] in ids(vocabulary, text) for text in thai)


def test_two_texts_of_many_long_ones_are_seen(tmp_path: Path) -> None:
    """Fails if long texts fill the sample, and those in another language, more than one in fifty, are dropped."""
    (tmp_path / "f").mkdir()
    for number in range(70):
        text = " ".join(turned(CASES["fi"]["text"], 9)) if number in (33, 47) else prose(number, 20)
        (tmp_path / f"f/{number}.txt").write_text(f"{text}\n" * (40_000 // len(text)), encoding="utf-8")
    recipe = build_folder_recipe(tmp_path / "f", tmp_path / "store", {})
    assert recipe.fitted is not None and recipe.fitted.looked_at == 70
    assert recipe.sources[0].documents.language.keep == () and not settings_of(recipe).strip_accents


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
