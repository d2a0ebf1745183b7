"""Measures of a vocabulary: against counts made word by word with the reference, and by hand."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import put_corpus, row, words
from tiers import examples

from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from tokenizers_train.build import plan_counts, plan_vocabulary, read_vocabulary, train_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.build import (
    count_tokens_before_merges,
    measure_sizes,
    plan_measures,
    read_measures,
    select_nested_sizes,
    truncate_vocabulary,
)
from tokenizers_train.measures.measure import (
    Measures,
    Overlap,
    align_counts,
    compute_overlap,
    count_pieces,
    encode_counted_words,
    find_most_split,
    list_longest_pieces,
    list_ordinary_ids,
    list_unused_pieces,
    measure_sources,
    measure_words,
    to_piece_key,
)
from tokenizers_train.measures.texts import cut_text, find_cut_differences, measure_lines
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary
from tokenizers_train.words.counts import count_words
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALL = build_bert_vocabulary((*SPECIALS, "[unused0]", "a", "b", ".", "##a", "##b", "ab", "abba"))
PIECES = VocabularySettings(size=70, min_frequency=1)
BYTES = VocabularySettings(algorithm="byte-bpe", size=330, min_frequency=1)
UNIGRAM = VocabularySettings(algorithm="unigram", size=60)
PROSE = [words(seed) for seed in range(30)]


def counted(texts: Sequence[str], settings: VocabularySettings = PIECES) -> WordCounts:
    return count_words(settings.word_rule, pa.array(texts, pa.large_string()))


def trained(settings: VocabularySettings, size: int | None = None) -> Vocabulary:
    return train_vocabulary(counted(PROSE, settings), replace(settings, size=size or settings.size))


def measured(vocabulary: Vocabulary, counts: WordCounts) -> Measures:
    pieces = encode_counted_words(Encoder(vocabulary), counts)
    return measure_words(pieces, vocabulary.special_ids["unk"], vocabulary.size)


def measured_plainly(vocabulary: Vocabulary, counts: WordCounts) -> Measures:
    """Every word by itself through the reference."""
    tokenizer, unknown, used = vocabulary.to_tokenizer(), vocabulary.special_ids["unk"], set[int]()
    tokenizer.encode_special_tokens = True
    sums = Counter[str]()
    for entry in counts.to_pylist():
        word, count = entry["word"], entry["count"]
        ids = tokenizer.encode(word, add_special_tokens=False).ids
        used.update(ids)
        sums["words"] += count
        sums["tokens"] += count * len(ids)
        sums["characters"] += count * len(word)
        sums["bytes"] += count * len(word.replace("\u2581", " ").encode())
        sums["whole_words"] += count * (len(ids) == 1 and ids[0] != unknown)
        sums["unknown_words"] += count * (unknown in ids)
        sums["unknown_tokens"] += count * ids.count(unknown)
    names = ("words", "tokens", "characters", "bytes", "whole_words", "unknown_words", "unknown_tokens")
    return Measures(distinct_words=counts.num_rows, used_pieces=len(used), **{name: sums[name] for name in names})


@examples(40)
@given(st.lists(st.text("abAB.é ", max_size=12), max_size=6))
def test_figures_equal_those_of_the_reference_word_by_word(texts: list[str]) -> None:
    counts = counted(texts)
    assert measured(SMALL, counts) == measured_plainly(SMALL, counts)


@pytest.mark.parametrize("settings", [PIECES, BYTES, UNIGRAM])
def test_figures_of_a_trained_vocabulary_equal_the_reference_s(settings: VocabularySettings) -> None:
    """Fails if a word by itself has other tokens than in its text, too."""
    vocabulary, texts = trained(settings), [*PROSE, "Unmet words: été, ₤5!"]
    counts = counted(texts, settings)
    found = measured(vocabulary, counts)
    assert found == measured_plainly(vocabulary, counts)
    assert found.whole_words < found.words and (found.unknown_tokens > 0) == (settings is not BYTES)
    assert found.tokens == sum(len(cut_text(vocabulary, text).pieces) for text in texts)


def test_figures_by_hand() -> None:
    """ab twice is whole, aba is ab ##a, x is unknown, abba is whole."""
    counts = counted(["ab ab aba x abba."])
    figures = measured(SMALL, counts)
    assert (figures.words, figures.distinct_words, figures.tokens) == (6, 5, 7)
    assert (figures.whole_words, figures.unknown_words, figures.unknown_tokens) == (4, 1, 1)
    assert (figures.characters, figures.used_pieces) == (13, 5)
    assert figures.fertility == pytest.approx(7 / 6) and figures.whole_share == pytest.approx(4 / 6)
    assert figures.unknown_share == pytest.approx(1 / 7) and figures.bytes_per_token == pytest.approx(13 / 7)


def test_no_words_have_no_shares() -> None:
    figures = measured(SMALL, COUNTS_SCHEMA.empty_table())
    assert figures.words == figures.tokens == figures.used_pieces == 0
    assert figures.fertility is figures.whole_share is figures.unknown_share is None


def test_words_split_most_are_those_that_cost_most_tokens() -> None:
    """Fails if a whole word is among them, or rare words of many pieces are before frequent ones."""
    counts = counted(["aba aba aba aba", "babab babab", "bb bb bb bb bb bb", "ab " * 50])
    found = [
        (split.word, split.count, len(split.ids))
        for split in find_most_split(encode_counted_words(Encoder(SMALL), counts), 9)
    ]
    assert found == [("bb", 6, 2), ("babab", 2, 5), ("aba", 4, 2)]
    assert find_most_split(encode_counted_words(Encoder(SMALL), counts), 1)[0].ids == (
        SMALL.find_id("b"),
        SMALL.find_id("##b"),
    )


def test_pieces_used_long_and_never_used() -> None:
    pieces = encode_counted_words(Encoder(SMALL), counted(["ab ab ab aba. ."]))
    totals = count_pieces(pieces, SMALL.size)
    assert {SMALL.tokens[id]: int(totals[id]) for id in np.flatnonzero(totals)} == {"ab": 4, "##a": 1, ".": 2}
    assert [SMALL.tokens[id] for id in list_unused_pieces(SMALL, totals)] == ["a", "b", "##b", "abba"]
    assert [SMALL.tokens[id] for id in list_longest_pieces(SMALL, 3)] == ["abba", "ab", "##a"]


def test_sources_are_measured_apart_and_add_up() -> None:
    parts = {"one": counted(PROSE[:10]), "two": counted([*PROSE[10:], "xyz xyz"])}
    vocabulary = trained(PIECES)
    pieces = encode_counted_words(Encoder(vocabulary), counted([*PROSE, "xyz xyz"]))
    found = measure_sources(pieces, vocabulary.special_ids["unk"], vocabulary.size, sorted(parts.items()))
    assert found == {name: measured_plainly(vocabulary, counts) for name, counts in parts.items()}
    assert found["one"].unknown_words == 0 and found["two"].unknown_words == 2
    with pytest.raises(AssertionError, match="missing in the whole"):
        align_counts(pieces.words, counted(["never met"]))


@pytest.mark.parametrize("settings", [PIECES, BYTES])
def test_a_smaller_vocabulary_is_the_beginning_of_a_larger_one(settings: VocabularySettings) -> None:
    """Fails if the curve shows vocabularies that no training would give, or encodes words as none of them does."""
    counts, largest = counted(PROSE, settings), trained(settings, size=2_000)
    encoder, words = Encoder(largest), counted([*PROSE, "xyz É caps"], settings)
    sizes = select_nested_sizes(largest, settings, (60, 80, 100, 270, 300, 2_000))
    assert len(sizes) >= 3
    for size in sizes:
        vocabulary = trained(settings, size=size)
        assert truncate_vocabulary(largest, settings, size) == vocabulary
        ours, theirs = (
            encode_counted_words(encoder.with_size(size), words),
            encode_counted_words(Encoder(vocabulary), words),
        )
        assert (ours.ids == theirs.ids).all() and (ours.offsets == theirs.offsets).all()
    assert [size for size, _ in measure_sizes(counts, counts, settings, (60, 80, 100, 270, 300, 2_000))] == sizes


def test_sizes_without_room_for_a_piece_are_left_out() -> None:
    unused = VocabularySettings(size=90, min_frequency=1, unused=20)
    counts = counted(PROSE)
    largest = train_vocabulary(counts, VocabularySettings(size=2_000, min_frequency=1, unused=20))
    least = count_tokens_before_merges(largest, unused)
    assert len(largest.tokens[least].strip("#")) == 2 and len(largest.tokens[least - 1].strip("#")) == 1
    assert select_nested_sizes(largest, unused, (10, least, least + 1, 9_000)) == [least + 1, largest.size]
    assert truncate_vocabulary(largest, unused, 9_000) == largest


def test_pieces_of_two_algorithms_are_compared_by_their_text() -> None:
    bytes_ = trained(BYTES)
    assert to_piece_key(SMALL, SMALL.find_id("##b")) == (False, "b") == to_piece_key(bytes_, bytes_.find_id("b"))
    assert to_piece_key(SMALL, SMALL.find_id("ab")) == (True, "ab")
    assert to_piece_key(bytes_, bytes_.find_id("Ġri")) == (True, "ri")
    assert set(range(SMALL.size)) - {*list_ordinary_ids(SMALL)} == {0, 1, 2, 3, 4, 5}


def test_unigram_is_compared_by_its_text_and_has_no_curve() -> None:
    vocabulary = trained(UNIGRAM)
    word = next(
        id
        for id in list_ordinary_ids(vocabulary)
        if vocabulary.tokens[id][:1] == "\u2581" and len(vocabulary.tokens[id]) > 1
    )
    assert to_piece_key(vocabulary, word) == (True, vocabulary.tokens[word][1:])
    assert vocabulary.special_ids["mask"] not in list_ordinary_ids(vocabulary)
    assert measure_sizes(counted(PROSE, UNIGRAM), counted(PROSE, UNIGRAM), UNIGRAM) == []


def test_overlap_by_hand() -> None:
    other = build_bert_vocabulary((*SPECIALS, "ab", "##b", "c", "b"))
    assert compute_overlap(SMALL, other) == Overlap(shared=3, first=7, second=4)
    assert compute_overlap(SMALL, SMALL) == Overlap(shared=7, first=7, second=7)


def test_places_of_pieces_in_a_text() -> None:
    cut = cut_text(SMALL, " Aba  [MASK] abx.")
    inside = [(cut.text[piece.start : piece.end], SMALL.tokens[piece.id]) for piece in cut.pieces]
    assert inside[:2] == [("Ab", "ab"), ("a", "##a")] and inside[-2:] == [("abx", "[UNK]"), (".", ".")]
    assert (cut.measures.unknown_tokens, cut.measures.words) == (4, 3)  # "[" and "mask" and "]" are text, and not known


@pytest.mark.parametrize("settings", [PIECES, BYTES, UNIGRAM])
def test_pieces_cover_the_text(settings: VocabularySettings) -> None:
    cut = cut_text(trained(settings), PROSE[0])
    assert "".join(cut.text[p.start : p.end] for p in cut.pieces) == "".join(PROSE[0].split())


def test_words_cut_apart_by_hand() -> None:
    letters = build_bert_vocabulary((*SPECIALS, "a", "b", "##a", "##b", "ba"))
    texts = [cut_text(vocabulary, "a abba ba bab  ba") for vocabulary in (SMALL, letters)]
    expected = {
        "abba": (("abba",), ("a", "b", "b", "a")),
        "ba": (("b", "a"), ("ba",)),
        "bab": (("b", "a", "b"), ("ba", "b")),
    }
    assert find_cut_differences(*texts, 9) == expected
    assert [*find_cut_differences(*texts, 2)] == ["abba", "ba"] and find_cut_differences(texts[0], texts[0], 9) == {}


@pytest.mark.parametrize("settings", [PIECES, BYTES])
def test_a_text_is_measured_line_by_line(settings: VocabularySettings) -> None:
    vocabulary = trained(settings)
    lines = [*PROSE, "", "été \r"]
    found, again = measure_lines(Encoder(vocabulary), Encoder(vocabulary), lines=(f"{line}\n" for line in lines))
    clean = [line.rstrip("\r") for line in lines]
    tokens = [len(cut_text(vocabulary, line).pieces) for line in clean]
    assert (found.lines, found.tokens) == (len(lines), sum(tokens))
    assert found.words == sum(len(line.split()) for line in clean)
    assert found.bytes == sum(len(line.encode()) for line in clean) == found.characters + 2
    assert found.fertility == pytest.approx(sum(tokens) / found.words)
    assert found == again and [none.fertility for none in measure_lines(Encoder(vocabulary), lines=[])] == [None]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "store"))


@pytest.mark.parametrize("settings", [PIECES, BYTES])
def test_the_stage_stores_what_the_functions_say(place: Place, settings: VocabularySettings) -> None:
    rows = {
        "g001-a-00000": [row(1, words(1))],
        "g001-b-00000": [row(2, words(2))],
        "g002-a-00000": [row(3, words(3) + " unheard", generation=2)],
    }
    texts = {name: [entry["text"] for entry in found] for name, found in rows.items()}
    counts = build_stage(place, plan_counts(put_corpus(place, rows), settings.word_rule))
    weighted = build_stage(place, plan_vocabulary("v", counts, settings, {"b": 3.0}))
    vocabulary = read_vocabulary(place, weighted)
    manifest = build_stage(place, plan_measures(weighted, counts))
    found = read_measures(place, manifest)
    everything = counted([text for part in texts.values() for text in part], settings)
    assert found.corpus == measured_plainly(vocabulary, everything)
    assert found.sources == {
        "a": measured_plainly(vocabulary, counted(texts["g001-a-00000"] + texts["g002-a-00000"], settings)),
        "b": measured_plainly(vocabulary, counted(texts["g001-b-00000"], settings)),
    }
    assert list(found.sizes) == sorted(found.sizes) and len(found.sizes) >= 1
    assert sum(found.counts) == found.corpus.tokens and len(found.counts) == vocabulary.size
    account = manifest.ledger.find_account("words")
    assert account.total == found.corpus.words and account.outcomes["one piece"] == found.corpus.whole_words
    assert all(split["count"] >= 1 and len(split["ids"]) > 1 for split in found.splits) and found.splits


def test_other_counts_or_another_vocabulary_are_measured_anew(place: Place) -> None:
    """Fails if a source's name is no part of what names the figures told of it."""
    text = [row(1, words(1))]
    planned = []
    for name in ("g001-a-00000", "g001-b-00000"):
        counts = build_stage(place, plan_counts(put_corpus(place, {name: text}), PIECES.word_rule, name))
        vocabulary = build_stage(place, plan_vocabulary(name, counts, PIECES, {}))
        stage = plan_measures(vocabulary, counts)
        planned.append(stage.compute_part_fingerprint(stage.parts[0]))
    assert planned[0] != planned[1]
