"""The sentence splitter held against people's sentences, and its cost against the size of hostile texts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from growth_by_size import QUADRATIC, growth
from tiers import mostly_long

from benchmarks.sentence_quality import (
    GoldText,
    agreement,
    gold_documents,
    golden_rules,
    joined,
    ours,
    rules_kept,
)
from corpora.text.buffers import to_text_buffers
from corpora.text.sentences.splitter import sentence_offsets


def in_gold(shared: Path) -> tuple[list[list[GoldText]], list[tuple[str, list[str]]]]:
    gold = shared / "data" / "gold"
    documents = gold_documents(gold / "ud-english-ewt" / "en_ewt-ud-dev.conllu")
    return documents, golden_rules(gold / "sentence-splitting" / "golden-rules-en.jsonl")


def test_documents_are_split_as_people_split_them(shared: Path) -> None:
    # Others on the same boundaries: sentencex 1.0.32 .907, segtok 1.5.11 .902; paragraph by paragraph .872 and .870.
    documents, _ = in_gold(shared)
    whole = [joined(paragraphs) for paragraphs in documents]
    found = agreement(ours, whole)
    assert (len(whole), found.gold) == (318, 1683)
    assert found.f1 > 0.925 and found.precision > 0.99
    assert agreement(ours, whole[1::2]).f1 > 0.921  # held back when the rules were made
    assert agreement(ours, [paragraph for paragraphs in documents for paragraph in paragraphs]).f1 > 0.899


def test_every_golden_rule_of_english_holds(shared: Path) -> None:
    _, rules = in_gold(shared)
    assert len(rules) == 52
    assert [text for (text, _), kept in zip(rules, rules_kept(ours, rules), strict=True) if not kept] == []


def test_a_text_without_capitals_is_split_at_nearly_the_same_places(shared: Path) -> None:
    documents, _ = in_gold(shared)
    lowered = [[GoldText(text=one.text.lower(), ends=one.ends) for one in paragraphs] for paragraphs in documents]
    assert agreement(ours, [joined(paragraphs) for paragraphs in lowered]).f1 > 0.915


HOSTILE = [".", "(", ")", "a.b.", '"', ". ", ". A", "A. ", "a. ", "=== ", "*", "1) a ", ":) A ", "[...] A ", ". . . A "]
HOSTILE += ["end.Today ", " \n", "word after word, ", "。"]


def split(text: str) -> None:
    sentence_offsets(*to_text_buffers(pa.array([text], pa.large_string())))


@pytest.mark.parametrize("piece", mostly_long(HOSTILE, 5))
def test_time_is_linear_in_what_is_hostile(piece: str) -> None:
    """Fails if the time of a hostile text grows with the square of its length."""
    assert growth(lambda size: split("(A • " + piece * (size // len(piece)) + " a b."), 1_000_000) < QUADRATIC


@pytest.mark.long
def test_a_line_of_fifty_megabytes_takes_time_by_its_length() -> None:
    """Fails if a line without an end is looked through again and again: it would take a day."""
    assert growth(lambda times: split("The word and another word here, and no end. " * times), 1_200_000) < QUADRATIC


def test_rows_far_larger_than_the_block_and_smaller_than_a_word() -> None:
    texts = ["", "A", "x" * 5000 + ". Then", " ", "Go. " * 4096, "é" * 4095 + "。É"]
    data, offsets = to_text_buffers(pa.array(texts, pa.large_string()))
    starts, ends, rows = sentence_offsets(data, offsets)
    assert np.diff(rows).tolist() == [0, 1, 2, 0, 4096, 2]
    assert (starts < ends).all() and (ends[:-1] <= starts[1:]).all()
