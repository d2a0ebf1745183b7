"""The quality rules: each can drop a document, and a column is judged as its documents are."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import column

from corpora.judging.steps.rules import (
    DETAILS,
    REASONS,
    RUN_COUNTS,
    C4Rules,
    FineWebRules,
    GopherRules,
    RepetitionRules,
    RulesSettings,
    compute_quality,
    compute_quality_of_counts,
    describe_failure,
    describe_failures,
    explain,
    judge,
    judge_counts,
    judge_texts,
)
from corpora.store.settings import to_settings_json
from corpora.text.counts.definition import measure
from corpora.text.counts.languages import measure_texts_in

OFF = RulesSettings(
    gopher=GopherRules(enabled=False), repetition=RepetitionRules(enabled=False), c4=C4Rules(enabled=False)
)
OPEN = GopherRules(min_words=0, min_mean_word_length=0, min_alphabetic_words=0, min_stop_words=0)
ALL_LINES = FineWebRules(enabled=True, min_ended_lines=0, max_short_lines=1, max_repeated_line_characters=1)
PROSE = (
    "The ferry left the harbour at seven, and nobody on the quay waved. It was to be the last crossing of the "
    "year. Two men stood with their backs to the wind and said that they would have to walk home.\n"
    "Nobody believed them. The road over the hill had been closed since the storm in October, and the bridge "
    "was not to be trusted after dark."
)
WORDS = ["the", "The", "of,", "(and)", "lorem", "Lorem", "ipsum", "ipsum.", "7", "é", "日本。", "！", "x" * 9]
MARKS = [
    "।",
    "の",
    "กข",
    "……",
    "#",
    "##",
    "...",
    "..",
    "....",
    "…",
    ".",
    "?”",
    "'",
    '"',
    ")",
    "{",
    "}",
    "-",
    "•",
    "*",
    "\x01",
]
PIECES = st.sampled_from([*WORDS, *MARKS, " ", "  ", "\n", "\n\n", "\n \n", "\t"])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join), st.lists(PIECES, max_size=40).map(" ".join))
LANGUAGES = st.sampled_from(["en", "de", "ja", "th", "hi", "un"])


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, LANGUAGES), max_size=4), st.integers(0, 20), st.floats(0, 1), st.booleans())
def test_the_column_of_reasons_is_the_definition(rows: list[tuple[str, str]], few: int, share: float, on: bool) -> None:
    rules = RulesSettings(
        gopher=GopherRules(enabled=on, min_words=few, max_words=20, max_symbol_ratio=share, min_stop_words=few % 3),
        repetition=RepetitionRules(
            max_repeated_lines=share, max_top_2gram_characters=share, max_repeated_5gram_characters=share
        ),
        c4=C4Rules(min_sentences=few % 3, drop_curly_braces=on, min_long_lines=few % 2),
        fineweb=FineWebRules(enabled=on, max_short_lines=share),
    )
    expected = [judge(text, rules, language) for text, language in rows]
    texts, languages = column([text for text, _ in rows]), [language for _, language in rows]
    assert [REASONS[code] or None for code in judge_texts(texts, rules, languages)] == expected
    counts = measure_texts_in(texts, languages)
    details = describe_failures(counts, judge_counts(counts, rules, languages), languages)
    assert details == [describe_failure(text, rules, language) or "" for text, language in rows]


SPOILT = {
    "document.empty": " \n",
    "gopher.min_words": "Sold out.",
    "gopher.max_words": PROSE + " again" * 200,
    "gopher.min_mean_word_length": PROSE + " a" * 100,
    "gopher.max_mean_word_length": PROSE + " " + "w" * 900,
    "gopher.max_hash_marks": PROSE + " #go" * 20,
    "gopher.max_ellipses": PROSE + " so..." * 20,
    "gopher.max_bullet_lines": "- " + PROSE.replace("\n", "\n- "),
    "gopher.max_ellipsis_lines": PROSE + "..",
    "gopher.min_alphabetic_words": PROSE + " 3.141" * 25,
    "gopher.min_stop_words": "Wir warten hier nun schon lange auf unser Boot. " * 6,
    "repetition.max_repeated_lines": PROSE + "\nNext" * 3,
    "repetition.max_repeated_paragraphs": PROSE + "\nA\nB\nC\nD" + "\n\nNext" * 2,
    "repetition.max_repeated_line_characters": PROSE + "\nA\nB\nC\nD\nE\n" + PROSE[:120] + "\n" + PROSE[:120],
    "repetition.max_repeated_paragraph_characters": PROSE + "\n\nA\n\nB\n\nC\n\nD\n\nE\n\n" + PROSE,
    "c4.lorem_ipsum": PROSE + " Lorem ipsum dolor.",
    "c4.curly_braces": PROSE + " {}",
    "c4.min_sentences": PROSE.replace(".", ","),
    "c4.min_long_lines": PROSE,
    "fineweb.min_ended_lines": PROSE.replace(".\n", "\n")[:-1],
    "fineweb.max_short_lines": PROSE + "\nYes.\nNo.\nPerhaps.\nOnce.\nTwice.",
    "fineweb.max_repeated_line_characters": PROSE + "\nWhoever came by in those days was asked to stay for supper." * 2,
    "fineweb.max_newlines": PROSE.replace("\n", "\n" * 30),
}
RUN = ["Northeast", "harbours,", "seafaring", "villagers", "gathering", "driftwood", "carefully", "alongside"]
RUN += ["abandoned", "shipyards"]


def with_runs(length: int) -> str:
    """Prose in which a run of so many words occurs six times, each time before another word."""
    return PROSE + "".join(f" {' '.join(RUN[:length])} {after}" for after in ("a", "b", "c", "d", "e", "f"))


SPOILT |= {f"repetition.max_{name}": with_runs(int(name.split("_")[1].removesuffix("gram"))) for name in RUN_COUNTS}


@pytest.mark.parametrize("reason", DETAILS)
def test_every_rule_drops_what_it_names_and_only_when_enabled(reason: str) -> None:
    others: dict[str, Any] = {f"max_{name}": 1 for name in RUN_COUNTS if not reason.endswith(name)}
    rules = RulesSettings(
        gopher=GopherRules(max_words=200, max_ellipsis_lines=0.4),
        repetition=RepetitionRules(max_repeated_line_characters=1 if "_paragraph" in reason else 0.2, **others),
        c4=C4Rules(drop_curly_braces=True, min_long_lines=int(reason == "c4.min_long_lines")),
        fineweb=FineWebRules(enabled=True),
    )
    assert judge(PROSE.replace("\n", " "), rules) is None
    text = SPOILT[reason]
    assert judge(text, rules) == reason
    assert REASONS[judge_texts(column([PROSE, text]), rules)[1]] == reason
    group = reason.partition(".")[0]
    if group != "document":
        switched_off = replace(rules, **{group: replace(getattr(rules, group), enabled=False)})
        assert judge(text, switched_off) != reason


def test_all_of_repetition_is_on_and_fineweb_is_off() -> None:
    """Fails if a default is not the published one, or a rule that is off enters the fingerprint."""
    limits = {2: 0.20, 3: 0.18, 4: 0.16, 5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
    repetition = to_settings_json(RepetitionRules())
    assert {int("".join(filter(str.isdigit, name))): repetition[f"max_{name}"] for name in RUN_COUNTS} == limits
    determining = to_settings_json(RulesSettings())
    assert "fineweb" not in determining and "min_long_lines" not in to_settings_json(C4Rules())
    assert to_settings_json(RulesSettings(fineweb=FineWebRules(enabled=True)))["fineweb"] == {
        "enabled": True,
        "min_ended_lines": 0.12,
        "max_short_lines": 0.67,
        "max_repeated_line_characters": 0.1,
        "max_newlines": 0.3,
    }


def test_an_explanation_has_every_enabled_rule_in_order() -> None:
    everything = RulesSettings(c4=C4Rules(drop_curly_braces=True), fineweb=FineWebRules(enabled=True))
    assert [name for name, _, _ in explain(PROSE, everything)] == list(DETAILS)
    assert not any(failed for _, _, failed in explain(PROSE, RulesSettings()))
    assert explain("It is\nIt is", replace(OFF, repetition=RepetitionRules()))[:3] == [
        ("document.empty", "no words", False),
        ("repetition.max_repeated_lines", "1 of 2 lines", True),
        ("repetition.max_repeated_paragraphs", "0 of 1 paragraphs", False),
    ]
    for text in SPOILT.values():
        failed = [name for name, _, failed in explain(text, everything) if failed]
        assert next(iter(failed), None) == judge(text, everything)


def test_quality_is_the_per_mille_of_characters_in_lines_that_end() -> None:
    texts = ["", "Home", "It rains.", "Home | News\nIt rains.”", "  a.  \n b"]
    assert compute_quality(column(texts)).tolist() == [0, 0, 1000, 1000 * 10 // 21, 1000 * 2 // 3]
    assert [int(compute_quality_of_counts(measure(text))) for text in texts] == compute_quality(column(texts)).tolist()
    assert compute_quality(column([])).dtype == np.int32


@pytest.mark.parametrize(
    ("text", "rules", "key"),
    [
        ("### a", replace(OFF, gopher=replace(OPEN, max_symbol_ratio=1.0)), "gopher.max_hash_marks"),
        ("a\n\nb\n\nc", replace(OFF, fineweb=replace(ALL_LINES, max_newlines=1.0)), "fineweb.max_newlines"),
    ],
)
def test_a_ratio_of_one_is_not_off_and_is_not_said_to_be(text: str, rules: RulesSettings, key: str) -> None:
    """Fails if a message tells the user that 1 puts a rule off that still drops."""
    assert judge(text, rules) == key
