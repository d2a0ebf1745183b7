"""Counts and rules in the language of a document: its words, its stop words, its ends of sentences."""
# ruff: noqa: RUF001 - marks of other scripts are part of the subject here

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_cases import cases_of
from text_columns import column

from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.language import LanguageSettings, choose_rule_languages, detect_languages
from corpora.judging.steps.rules import REASONS, RepetitionRules, RulesSettings, describe_failure, judge, judge_texts
from corpora.schema import Locator
from corpora.sources.contract import Record
from corpora.text.counts.languages import (
    count_stop_words,
    find_terms,
    insert_spaces,
    measure_in,
    measure_texts_in,
    read_language_tables,
)

EVERY = LanguageSettings(keep=())
ARTICLES = cases_of(__file__, "articles")


@pytest.mark.parametrize("language", ARTICLES)
def test_an_article_is_judged_in_its_own_language(language: str) -> None:
    """Fails if an article in one of the twelve languages goes, or the words of another are taken for its own."""
    text = ARTICLES[language]
    assert detect_languages(column([text]), EVERY) == [language]
    assert judge(text, RulesSettings(), language) is None
    foreign = "Wxq vbn plk rtz hgf. " * 3 + "Qwv zzx. Vvq rtx plm kkj. " * 12
    if language not in ("ja", "zh"):
        assert (
            count_stop_words(foreign, language)
            == 0
            == count_stop_words(text, "ko")
            < 2
            <= count_stop_words(text, language)
        )
        assert judge(text, RulesSettings()) == "gopher.min_stop_words"


def test_what_has_no_stop_word_of_its_language_is_dropped_and_told_so() -> None:
    words = " ".join(f"Hafen{chr(97 + n % 26)}{chr(97 + n // 26)}. Kahn{chr(97 + n % 26)}" for n in range(40))
    assert judge(words, RulesSettings(), "de") == "gopher.min_stop_words"
    assert describe_failure(words, RulesSettings(), "de") == "0 stop words (de)"
    assert judge(words, RulesSettings(), "sk") is None  # no table, no judgement


def test_the_ledger_counts_what_had_no_table() -> None:
    """Fails if documents that were not judged are not counted, or one of unknown language is judged as another."""
    slovak = (
        "Mlyn pri moste je miesto, kde ľudia z dediny mleli obilie. Dnes tam už nikto nebýva. Brána je zavretá. " * 4
    )
    unknown = "qwv zzx vvq rtx plm kkj bnn. " * 20
    texts = [ARTICLES["it"], slovak, unknown]
    locators = [Locator(file="a", sha256="0" * 64, stream=0, offset=row, length=1) for row in range(len(texts))]
    records = [Record(locator=place, text=text) for place, text in zip(locators, texts, strict=True)]
    rules = RulesSettings(repetition=RepetitionRules(enabled=False))
    every = judge_records(records, "s", DocumentsSettings(language=EVERY, rules=rules))
    assert every.documents.num_rows == 3 and every.reasons == []
    assert {name: n for name, n in every.figures.items() if "table" in name} == {
        "no table of words: sk": 1,
        "no table of words: un": 1,
    }
    english = judge_records(records, "s", DocumentsSettings(rules=rules))
    assert english.reasons == ["language: other language"] * 2 + ["rules: gopher.min_stop_words"]


def test_words_without_spaces_are_runs_of_characters() -> None:
    assert measure_in("東京は日本の首都である。", "ja").words == 6
    assert insert_spaces("Wikipediaは、自由だ") == "Wikipediaは、 自由 だ "
    assert measure_in("ภาษาไทย", "th").words == 2
    assert measure_in("東京 は", "de").words == 2
    assert measure_in("そう……だ。。。", "ja").ellipses == 2
    assert judge("短い。", RulesSettings(), "ja") == "gopher.min_words"
    assert judge("雨が降る。" * 60, RulesSettings(), "ja") == "repetition.max_top_2gram_characters"


def test_every_script_ends_sentences_with_its_own_marks() -> None:
    for language, text in {"hi": "यह है। वह है।", "ur": "یہ ہے۔ کیا؟", "am": "ቤት። ቤት።", "hy": "Այո։ Ոչ։"}.items():
        assert measure_in(text, language).sentences == 2, language
    assert measure_in("यह है। वह है।", "en").sentences == 0
    for language, text in {
        "de": "„Er ging.“ Sie blieb.",
        "da": "»Han gik.« Hun blev.",
        "ja": "「行く。」帰る。",
    }.items():
        assert measure_in(text, language).sentences == 2 and measure_in(text, language).ended_lines == 1
    assert not find_terms("th").ends and judge("ก" * 300, RulesSettings(), "th") != "c4.min_sentences"


def test_a_dash_that_opens_speech_is_no_list() -> None:
    speech = "– " + ARTICLES["pl"]
    assert judge(speech.replace("–", "-"), RulesSettings(), "pl") is None
    lines = "\n".join(f"- {line}." for line in ARTICLES["pl"].split(". "))
    assert judge(lines + "\n" + lines.replace("młyn", "dom"), RulesSettings(), "pl") == "gopher.max_bullet_lines"


def test_bounds_are_wider_where_words_are_longer_and_never_narrower() -> None:
    for code, table in read_language_tables().items():
        terms = find_terms(code)
        assert 8 <= len(table.stop_words) and 0 <= table.length < 2
        assert terms.shortest <= 1 <= terms.longest
    long = f"{ARTICLES['de']} {' '.join(['Hochwassermarkierungen'] * 34)}."
    words = RulesSettings(repetition=RepetitionRules(enabled=False))
    assert judge(long, words, "de") is None
    assert judge(long, words, "es") == judge(long, words, "en") == "gopher.max_mean_word_length"


TEXTS = st.text(alphabet="aé.# \n…。、東のกข่।ー“", max_size=60)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(["en", "de", "ja", "th", "hi", "un"])), max_size=4))
def test_a_column_is_counted_as_its_documents_are(rows: list[tuple[str, str]]) -> None:
    counts = measure_texts_in(column([text for text, _ in rows]), [language for _, language in rows])
    for row, (text, language) in enumerate(rows):
        assert [int(np.asarray(one)[row]) for one in counts] == [*measure_in(text, language)]


@pytest.mark.long
def test_texts_of_twelve_languages_are_kept(shared: Path) -> None:
    """Fails if more than one in fifty documents of 300 words of a treebank is dropped."""
    for path in sorted((shared / "data" / "languages" / "sentences").glob("*.jsonl")):
        space = "" if path.stem in ("ja", "zh") else " "
        documents, text = list[str](), ""
        for line in path.read_text(encoding="utf-8").splitlines():
            text += "\n\n" + space.join(json.loads(line)["sentences"])
            if (len(text.split()) if space else len(text) // 2) >= 300:
                documents.append(text.strip())
                text = ""
        languages = choose_rule_languages(detect_languages(column(documents), EVERY), EVERY)
        dropped = [REASONS[code] for code in judge_texts(column(documents), RulesSettings(), languages) if code]
        assert len(documents) >= 4 and len(dropped) <= 0.02 * len(documents), (path.stem, dropped)
