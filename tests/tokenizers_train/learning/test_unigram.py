"""Training Unigram: kernels equal their plain twins, and the pieces are those of the reference."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import table
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from unigram_plainly import (
    expected_plainly,
    matches_plainly,
    pruned_plainly,
    repeated_plainly,
    scored_plainly,
)

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s
from tokenizers_train.learning.unigram import (
    SeedPieces,
    UnigramSettings,
    choose_kept_pieces,
    compute_unknown_score,
    cut_at_rare_characters,
    cut_at_separators,
    find_seeds,
    list_piece_texts,
    spell_characters,
    train_unigram,
)
from tokenizers_train.learning.unigram_kernels import (
    Lattice,
    count_expected_pieces,
    digamma,
    exponential,
    fill_scores,
    logarithm,
    thin_lattice,
)
from tokenizers_train.words.table import COUNTS_SCHEMA

LONGEST = 5


def seeds(counts: Mapping[str, int], most: int = 1000) -> tuple[list[str], SeedPieces, Lattice]:
    spelling = spell_characters(table(counts))
    pieces, lattice = find_seeds(spelling, LONGEST, most)
    return list_piece_texts(spelling, pieces), pieces, lattice


WORDS = st.dictionaries(st.text("abcé▁", min_size=1, max_size=12), st.integers(1, 50), min_size=1, max_size=15)


@st.composite
def models_of_words(draw: st.DrawFn) -> tuple[dict[str, int], list[str], SeedPieces, Lattice, Float64s]:
    """Words, their first pieces, and any scores for them."""
    words = dict(sorted(draw(WORDS).items()))
    names, pieces, lattice = seeds(words)
    scores = draw(st.lists(st.floats(-30.0, -0.5), min_size=len(names), max_size=len(names)))
    return words, names, pieces, lattice, np.array(scores)


def matches(lattice: Lattice, names: list[str], start: int, word: str) -> list[tuple[int, int, str]]:
    """The pieces of a word that begins at a place of the text: begin, end, piece; at each place the shortest first."""
    found = []
    for place in range(len(word)):
        here = [int(lattice.longest[start + place])]
        while here[-1] >= 0:
            here.append(int(lattice.parents[here[-1]]))
        found += [(place, place + int(lattice.sizes[piece]), names[piece]) for piece in here[-2::-1]]
    return found


@settings(deadline=None)
@given(WORDS, st.integers(1, 40))
def test_seeds_equal_the_plain_twin(words: dict[str, int], most: int) -> None:
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    repeated = repeated_plainly(list(words), LONGEST)
    first = sorted(((count, letter) for letter, count in characters.items()), reverse=True)
    strings = sorted(((count * len(string), string) for string, count in repeated.items()), reverse=True)
    names, pieces, _ = seeds(words, most)
    expected = first + strings[: max(1, most - len(first))]
    assert list(zip(pieces.values.tolist(), names, strict=True)) == expected
    assert pieces.sizes.tolist() == [len(name) for name in names]


@settings(deadline=None)
@given(models_of_words())
def test_matches_equal_the_plain_twin(model: tuple[dict[str, int], list[str], SeedPieces, Lattice, Float64s]) -> None:
    words, names, _, lattice, scores = model
    named = dict(zip(names, scores.tolist(), strict=True))
    for start, word in zip(lattice.starts.tolist(), words, strict=False):
        plain = [(begin, end, piece) for begin, end, piece, _ in matches_plainly(word, named)]
        assert matches(lattice, names, start, word) == plain
        assert lattice.longest[start + len(word)] == -1


@settings(deadline=None)
@given(models_of_words(), st.data())
def test_a_lattice_thinned_out_has_the_matches_of_what_is_kept(
    model: tuple[dict[str, int], list[str], SeedPieces, Lattice, Float64s], data: st.DataObject
) -> None:
    """Fails if a piece that goes takes others with it, or leaves its place to one that is not the longest."""
    words, names, _, lattice, scores = model
    kept = data.draw(st.lists(st.sampled_from(range(len(names))), min_size=1, unique=True))
    thinned = thin_lattice(lattice, np.array(kept, np.int64))
    named = {names[old]: float(scores[old]) for old in kept}
    chosen = list(named)
    for start, word in zip(thinned.starts.tolist(), words, strict=False):
        plain = [(begin, end, piece) for begin, end, piece, _ in matches_plainly(word, named) if piece is not None]
        assert matches(thinned, chosen, start, word) == plain


@settings(deadline=None)
@given(models_of_words())
def test_expected_pieces_equal_the_plain_twin(
    model: tuple[dict[str, int], list[str], SeedPieces, Lattice, Float64s],
) -> None:
    words, names, _, lattice, scores = model
    plain = expected_plainly(words, dict(zip(names, scores.tolist(), strict=True)))
    expected = count_expected_pieces(lattice, scores, compute_unknown_score(scores), LONGEST)
    assert expected.tolist() == pytest.approx(list(plain.values()), rel=1e-9, abs=1e-200)
    scored = np.empty_like(scores)
    fill_scores(expected, scored)
    new = {name: score for name, score in zip(names, scored.tolist(), strict=True) if score > -math.inf}
    assert new == pytest.approx(scored_plainly(dict(zip(names, expected.tolist(), strict=True))), rel=1e-12)


@settings(deadline=None)
@given(models_of_words(), st.integers(1, 40))
def test_pruning_equals_the_plain_twin(
    model: tuple[dict[str, int], list[str], SeedPieces, Lattice, Float64s], size: int
) -> None:
    words, names, pieces, lattice, scores = model
    room = max(size * 11 // 10, int((len(names) + 1) * 0.75)) - 1
    kept = [names[i] for i in choose_kept_pieces(lattice, pieces, scores, UnigramSettings(size=size))]
    assert kept == pruned_plainly(words, dict(zip(names, scores.tolist(), strict=True)), room)


@pytest.mark.parametrize("score", [-3.0, -30.0, -120.0])
def test_probabilities_of_long_words_do_not_vanish(score: float) -> None:
    # e^(-120 * 700) is far below the smallest double; -3 makes all of a word one tenth of it.
    words = {"abcab" * 140: 3, "ab" * 300: 1, "cb": 2}
    names, _, lattice = seeds(words)
    scores = np.linspace(score, score / 2, len(names))
    plain = expected_plainly(words, dict(zip(names, scores.tolist(), strict=True)))
    expected = count_expected_pieces(lattice, scores, compute_unknown_score(scores), LONGEST)
    assert expected.tolist() == pytest.approx(list(plain.values()), rel=1e-9)
    assert expected.sum() > 100


def test_the_bits_are_the_same_everywhere() -> None:
    # Any change of arithmetic or of its order changes the digest: then raise the version of what uses it.
    words = {f"▁{stem}{ending}": 1 + i * j for i, stem in enumerate(STEMS) for j, ending in enumerate(ENDINGS)}
    pieces = train_unigram(table(words), UnigramSettings(size=50))
    assert len(pieces) == 50
    digest = hashlib.sha256("\n".join(f"{piece} {score.hex()}" for piece, score in pieces).encode())
    assert digest.hexdigest()[:16] == "c4f19b963fa5996e"


STEMS = ("walk", "talk", "look", "book", "cook", "work", "play", "stay", "point", "paint")
ENDINGS = ("", "s", "ed", "ing", "er", "ers", "ings")


def test_a_vocabulary_made_by_hand() -> None:
    # Nothing is repeated, so a stays at 3 of 4 and b at 1: digamma(3) - digamma(4) is -1/3, digamma(1) - that -11/6.
    pieces = train_unigram(table({"a": 3, "b": 1}), UnigramSettings(size=5))
    assert [piece for piece, _ in pieces] == ["a", "b"]
    assert [score for _, score in pieces] == pytest.approx([-1 / 3, -11 / 6], abs=1e-10)


def test_dropped_characters_come_back() -> None:
    # w and x always are together, so training keeps "wx" alone; both come back at the end of the scores.
    words = {"que": 50, "qui": 40, "quo": 20, "wxe": 9, "wxi": 7, "e": 10, "i": 10, "o": 3}
    pieces = dict(train_unigram(table(words), UnigramSettings(size=11)))
    assert pieces["w"] == pieces["wx"] == min(pieces.values())
    assert pieces["x"] - pieces["w"] == pytest.approx(0.0001)


def test_symbols_are_pieces_of_their_own() -> None:
    words = {"▁(ab)": 5, "▁ab": 5, "▁ab--c": 2, "▁a-b": 3}
    pieces = dict(train_unigram(table(words), UnigramSettings(size=12, symbols=("(", ")", "-", "--"))))
    assert [pieces[symbol] for symbol in ("(", ")", "-", "--")] == [0.0] * 4
    assert list(pieces)[:4] == ["(", ")", "-", "--"]
    assert not [piece for piece in pieces if {*"()-"} & {*piece} and pieces[piece] != 0.0]
    assert cut_at_separators(table(words), ["-", "--", "(", ")"]).to_pylist() == [
        {"word": "ab", "count": 5},
        {"word": "b", "count": 3},
        {"word": "c", "count": 2},
        {"word": "▁", "count": 5},
        {"word": "▁a", "count": 3},
        {"word": "▁ab", "count": 7},
    ]


def test_rare_characters_are_no_pieces() -> None:
    # Of 296 characters ▁ makes 100, a and b 96 each: 98.6 %; c makes it 99.7 %.
    words = table({"▁ab": 96, "▁c": 3, "▁d": 1})

    def characters(coverage: float) -> set[str]:
        pieces = train_unigram(words, UnigramSettings(size=20, character_coverage=coverage))
        return {piece for piece, _ in pieces if len(piece) == 1}

    assert characters(0.98) == {*"▁ab"}
    assert characters(0.99) == {*"▁abc"}
    assert characters(0.999) == {*"▁abcd"}
    assert cut_at_rare_characters(table({"a": 1, "b": 1}), 0.5).to_pylist() == [{"word": "a", "count": 1}]


def test_a_zero_character_is_a_words_end() -> None:
    pieces = dict(train_unigram(table({"ab\0ab": 3, "abc": 2}), UnigramSettings(size=10)))
    assert pieces == dict(train_unigram(table({"ab": 6, "abc": 2}), UnigramSettings(size=10)))


def test_no_more_pieces_than_asked_for() -> None:
    words = table({f"{stem}{ending}": 3 for stem in STEMS for ending in ENDINGS})
    least = len({*"".join(STEMS + ENDINGS)})
    for size in (least, least + 1, least + 7):
        assert len(train_unigram(words, UnigramSettings(size=size))) == size


def test_columns_in_chunks_and_slices_make_no_difference() -> None:
    words = table({f"{stem}{ending}": 3 for stem in STEMS for ending in ENDINGS})
    apart = pa.concat_tables([words.slice(0, 30), words.slice(30)])
    asked = UnigramSettings(size=40)
    assert train_unigram(apart, asked) == train_unigram(words, asked)
    part = pa.table(words.slice(5, 40).to_pydict(), schema=COUNTS_SCHEMA)
    assert train_unigram(words.slice(5, 40), asked) == train_unigram(part, asked)


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(InputError, match="no words"):
        train_unigram(COUNTS_SCHEMA.empty_table(), UnigramSettings(size=10))
    with pytest.raises(InputError, match="no words"):
        train_unigram(table({"--": 1}), UnigramSettings(size=10, symbols=("-",)))
    with pytest.raises(InputError, match="3 different characters"):
        train_unigram(table({"abc": 1}), UnigramSettings(size=2))
    with pytest.raises(InputError, match="3 different characters"):
        train_unigram(table({"abc": 1, "-": 1}), UnigramSettings(size=3, symbols=("-",)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0},
        {"character_coverage": 0.0},
        {"symbols": ("",)},
        {"symbols": ("a", "a")},
    ],
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        UnigramSettings(**({"size": 10} | wrong))


def paragraphs(path: Path) -> list[str]:
    """Pieces of text of some hundred characters."""
    words = path.read_text(encoding="utf-8", errors="replace").split()
    return [" ".join(words[i : i + 50]) for i in range(0, len(words), 50)]


def reference(texts: list[str], size: int) -> dict[str, float]:
    """The pieces of Hugging Face's trainer."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token=None))
    return dict(json.loads(tokenizer.to_str())["model"]["vocab"])


def num_tokens(pieces: Mapping[str, float], texts: list[str]) -> int:
    """How many tokens the reference cuts texts into with these pieces."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *pieces.items()], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return sum(len(encoding.tokens) for encoding in tokenizer.encode_batch(texts))


def assert_like_the_reference(texts: list[str], size: int, share: float = 0.99) -> None:
    """At least that share of the pieces is the same, most scores too, and held-out text has as many tokens."""
    held_out, texts = texts[::10], [text for i, text in enumerate(texts) if i % 10]
    split = pre_tokenizers.Metaspace().pre_tokenize_str
    words = Counter(word for text in texts for word, _ in split(text))
    ours, theirs = dict(train_unigram(table(words), UnigramSettings(size=size))), reference(texts, size)
    both = ours.keys() & theirs.keys()
    assert len(both) >= share * len(theirs) and len(ours) == len(theirs)
    # The scores of characters that come back depend on the order of a hash map.
    apart = [piece for piece in both if abs(ours[piece] - theirs[piece]) > 1e-6 and len(piece) > 1]
    assert len(apart) <= (1 - share) * len(theirs)
    assert num_tokens(ours, held_out) == pytest.approx(num_tokens(theirs, held_out), rel=0.001)


@pytest.mark.parametrize("language", ["eng", "fra", "hin", "arb", "vie", "tur"])
def test_equals_the_reference_in_many_languages(shared: Path, language: str) -> None:
    assert_like_the_reference(paragraphs(shared / f"data/gold/languages/udhr-{language}.txt"), 300, share=1.0)


@pytest.mark.parametrize("size", [1000, 3000])
def test_equals_the_reference_on_a_book(shared: Path, size: int) -> None:
    book = shared / "data/books/txt/alice-s-adventures-in-wonderland_11.txt"
    assert_like_the_reference(paragraphs(book), size, share=1.0)


@pytest.mark.long
@pytest.mark.parametrize("size", [8000, 30000])
def test_equals_the_reference_on_books(shared: Path, size: int) -> None:
    names = ("emma_158", "dracula_345", "the-jungle_140", "los-pazos-de-ulloa_18005", "madame-bovary_2413")
    books = [shared / f"data/books/txt/{name}.txt" for name in names]
    assert_like_the_reference([text for book in books for text in paragraphs(book)], size)


@pytest.mark.long
def test_equals_the_reference_on_wikitext(shared: Path) -> None:
    pages = sorted((shared / "data/wikipedia/wikitext").glob("*.txt"))
    assert_like_the_reference([text for page in pages for text in paragraphs(page)], 5000)


def test_a_word_of_enormous_length_is_not_learnt_from() -> None:
    words = {"▁abc": 50, "▁abd": 40, "▁" + "xyz" * 2_000: 9}
    pieces = dict(train_unigram(table(words), UnigramSettings(size=12)))
    assert "▁ab" in pieces and not {"x", "y", "z"} & {*pieces}


@settings(deadline=None)
@given(st.floats(1e-300, 1e300), st.floats(-700.0, 700.0))
def test_logarithm_and_exponential_are_right_to_the_last_digits(x: float, y: float) -> None:
    assert logarithm(x) == pytest.approx(math.log(x), rel=4e-16, abs=4e-16)
    assert exponential(y) == pytest.approx(math.exp(y), rel=4e-16)


def test_digamma() -> None:
    assert digamma(1.0) == pytest.approx(-0.5772156649015329, abs=1e-10)  # Euler's constant
    assert digamma(0.5) == pytest.approx(-0.5772156649015329 - 2 * math.log(2), abs=1e-10)
    assert digamma(1e6) == pytest.approx(math.log(1e6) - 0.5e-6, abs=1e-12)
