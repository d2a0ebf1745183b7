"""Adapting a vocabulary: what a choice claims to save is what the reference saves, and nothing else moves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import table
from tiers import examples
from tokenizers import AddedToken, models, pre_tokenizers

from corpora.errors import InputError
from tokenizers_train.adapting import (
    SCORE_MARGIN,
    AdaptSettings,
    Choice,
    UnigramCutter,
    WordPieceCutter,
    choose_tokens,
    find_old_pieces,
    list_slot_ids,
    spell_for_model,
    with_added_tokens,
)
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.vocabulary import (
    Vocabulary,
    build_albert_vocabulary,
    build_bert_vocabulary,
    build_roberta_vocabulary,
    load_vocabulary,
)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,"
ANY = AdaptSettings(min_count=1, min_length=1)


def bert(*more: str, unused: int = 0, max_word_length: int = 100) -> Vocabulary:
    """Slots, letters, and more pieces."""
    slots = [f"[unused{n}]" for n in range(unused)]
    tokens = (*SPECIALS, *slots, *LETTERS, *(f"##{letter}" for letter in LETTERS), *more)
    return build_bert_vocabulary(tokens, max_word_length=max_word_length)


def gpt2(*merges: tuple[str, str], more: Sequence[str] = ()) -> Vocabulary:
    """Bytes, what the merges make, and more tokens."""
    made = ("".join(pair) for pair in merges)
    return build_roberta_vocabulary(("<s>", "<pad>", "</s>", "<unk>", *BYTE_LETTERS, *made, *more, "<mask>"), merges)


def albert(scores: dict[str, float]) -> Vocabulary:
    """Pieces and their scores."""
    return build_albert_vocabulary([*scores.items()])


def num_tokens(vocabulary: Vocabulary, counts: dict[str, int]) -> int:
    """Tokens of all words, as the reference's model cuts each."""
    model = vocabulary.to_tokenizer().model
    return sum(count * len(model.tokenize(spell_for_model(vocabulary, word))) for word, count in counts.items())


def num_unknown(vocabulary: Vocabulary, counts: dict[str, int]) -> int:
    model, unk = vocabulary.to_tokenizer().model, vocabulary.special_ids["unk"]
    return sum(count for word, count in counts.items() if unk in [piece.id for piece in model.tokenize(word)])


def check_claims(vocabulary: Vocabulary, counts: dict[str, int], choices: Sequence[Choice]) -> None:
    """Each choice saves what it claims, next to those before it, and is reached."""
    before = num_tokens(vocabulary, counts)
    for number, choice in enumerate(choices):
        adapted = with_added_tokens(vocabulary, choices[: number + 1])
        after = num_tokens(adapted, counts)
        assert before - after == choice.saved_tokens, choice
        assert [p.value for p in adapted.to_tokenizer().model.tokenize(choice.token)] == [choice.token]
        before = after


# WordPiece.


def test_the_words_that_save_most_are_chosen_first() -> None:
    counts = {"cat": 100, "elephant": 30, "dog": 40, "the": 500}
    choices = choose_tokens(bert("the"), table(counts), 10)
    assert [(c.token, c.count, len(c.pieces), c.saved_tokens) for c in choices] == [
        ("elephant", 30, 8, 210),
        ("cat", 100, 3, 200),
        ("dog", 40, 3, 80),
    ]
    assert [c.token for c in choose_tokens(bert("the"), table(counts), 1)] == ["elephant"]


def test_a_choice_changes_what_the_next_ones_save() -> None:
    """Fails if candidates are ranked once: `walks` begins with `walk`, and then saves little."""
    counts = {"walk": 100, "walks": 90, "tree": 60}
    choices = choose_tokens(bert(), table(counts), 2)
    assert [(c.token, c.saved_tokens) for c in choices] == [("walk", 100 * 3 + 90 * 3), ("tree", 180)]
    check_claims(bert(), counts, choose_tokens(bert(), table(counts), 3))


def test_of_tokens_that_save_as_much_the_first_by_code_points_is_chosen() -> None:
    """Fails if a gain that has fallen is not put in its place: `zab` saved more before `zabc` was chosen."""
    counts = {"zabc": 20, "zab": 5, "abz": 5}
    choices = choose_tokens(bert(), table(counts), 3)
    assert [(c.token, c.saved_tokens) for c in choices] == [("zabc", 60), ("abz", 10), ("zab", 10)]


def test_a_token_that_makes_other_words_longer_is_counted_with_its_loss() -> None:
    """Fails if only the word itself is counted: `abcd` takes the beginning of `abcdefg` away from `abc ##defg`."""
    vocabulary = bert("abc", "##defg", "##ef")
    counts = {"abcd": 10, "abcdefg": 4}
    choices = choose_tokens(vocabulary, table(counts), 5)
    assert [(c.token, c.saved_tokens) for c in choices] == [("abcd", 10 - 4)]
    check_claims(vocabulary, counts, choices)
    assert choose_tokens(vocabulary, table({"abcd": 4, "abcdefg": 4}), 5, AdaptSettings(min_count=5)) == []


words = st.text("abc", min_size=1, max_size=7)
pieces = st.lists(words, max_size=12, unique=True).flatmap(
    lambda found: st.lists(st.sampled_from(["", "##"]), min_size=len(found), max_size=len(found)).map(
        lambda marks: sorted({mark + word for mark, word in zip(marks, found, strict=True) if len(word) > 1})
    )
)


@examples(40)
@given(more=pieces, counts=st.dictionaries(words, st.integers(1, 9), max_size=20))
def test_wordpiece_saves_what_it_claims(more: list[str], counts: dict[str, int]) -> None:
    vocabulary = bert(*more, unused=2)
    choices = choose_tokens(vocabulary, table(counts), 6, ANY)
    assert all(choice.saved_tokens > 0 for choice in choices)
    check_claims(vocabulary, counts, choices)


@settings(deadline=None)
@given(more=pieces, word=st.text("abcé", max_size=12), longest=st.integers(1, 12))
def test_wordpiece_is_cut_as_the_reference_does(more: list[str], word: str, longest: int) -> None:
    tokens = ["[UNK]", *"ab", "##a", "##b", "##c", *more]
    model = models.WordPiece({t: n for n, t in enumerate(dict.fromkeys(tokens))}, unk_token="[UNK]")
    model.max_input_chars_per_word = longest
    assert list(WordPieceCutter(tokens, "[UNK]", "##", longest).cut(word)) == [p.value for p in model.tokenize(word)]


def test_unknown_words_become_known() -> None:
    """Fails if an unknown word, one token before and after, seems not worth a token."""
    counts = {"лиж": 50, "good": 10, "лижz": 3}
    vocabulary = bert()
    choices = choose_tokens(vocabulary, table(counts), 2)
    assert [(c.token, c.rescued_words) for c in choices] == [("лиж", 53), ("good", 0)]
    assert choices[0].saved_tokens == -3  # `лижz` is two tokens now, and was one unknown one
    check_claims(vocabulary, counts, choices)
    assert num_unknown(vocabulary, counts) == 53 and num_unknown(with_added_tokens(vocabulary, choices), counts) == 0


def test_a_word_that_is_too_long_for_the_vocabulary_is_not_chosen() -> None:
    counts = {"abcdefgh": 50, "abcdefg": 10}
    assert [c.token for c in choose_tokens(bert(max_word_length=7), table(counts), 5)] == ["abcdefg"]


def test_no_numbers_marks_or_short_words_unless_asked_for() -> None:
    """`日本語` is three words to BERT, and no text holds `Gene` once it is lower-cased: neither would be reached."""
    counts = {"b12": 90, "2019": 80, "...": 70, "ab": 60, "gene": 50, "x" * 31: 40, "rare": 4, "日本語": 9, "Gene": 9}
    assert [c.token for c in choose_tokens(bert(), table(counts), 9)] == ["gene"]
    digits = choose_tokens(bert(), table(counts), 9, AdaptSettings(characters="letters-digits"))
    assert {c.token for c in digits} == {"gene", "b12", "2019"}
    loose = AdaptSettings(min_count=4, min_length=2, max_length=31)
    assert {c.token for c in choose_tokens(bert(), table(counts), 9, loose)} == {"gene", "ab", "rare", "x" * 31}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_count": 0}, "min_count is 0"),
        ({"min_length": 0}, "min_length is 0"),
        ({"min_length": 5, "max_length": 4}, "max_length is 4; it must be 5 or more"),
        ({"characters": "all"}, "characters"),
    ],
)
def test_wrong_settings_name_the_key(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AdaptSettings(**wrong)  # type: ignore[arg-type]


# Merges.


def test_merging_goes_on_where_it_ended() -> None:
    counts = {" lower": 50, " lowest": 30, " tern": 20, "9876": 400}
    choices = choose_tokens(gpt2(("Ġ", "l"), ("o", "w")), table(counts), 3)
    assert [(c.token, c.pieces, c.count, c.saved_tokens) for c in choices] == [
        ("owe", ("ow", "e"), 80, 80),
        ("Ġlowe", ("Ġl", "owe"), 80, 80),
        ("Ġlower", ("Ġlowe", "r"), 50, 50),
    ]
    check_claims(gpt2(("Ġ", "l"), ("o", "w")), counts, choices)


byte_words = st.text("abé ", min_size=1, max_size=8)


@examples(40)
@given(
    merges=st.lists(st.tuples(st.sampled_from("abĠ"), st.sampled_from("ab")), max_size=4, unique_by="".join),
    counts=st.dictionaries(byte_words, st.integers(1, 9), max_size=20),
)
def test_merges_save_what_they_claim(merges: list[tuple[str, str]], counts: dict[str, int]) -> None:
    vocabulary = gpt2(*merges)
    choices = choose_tokens(vocabulary, table(counts), 8, ANY)
    check_claims(vocabulary, counts, choices)


def test_a_merge_never_makes_a_token_that_is_there() -> None:
    """Fails if `ab`+`c` is merged into the `abc` that `a`+`bc` makes: an older merge would then go on with it."""
    vocabulary = gpt2(("a", "b"), ("b", "c"), ("a", "bc"), ("abc", "d"))
    counts = {"abcd": 50, "xyz": 5}
    choices = choose_tokens(vocabulary, table(counts), 4)
    assert "abc" not in {choice.token for choice in choices}
    check_claims(vocabulary, counts, choices)


def test_old_words_are_cut_as_before_where_no_new_merge_applies() -> None:
    vocabulary = gpt2(("Ġ", "t"), ("h", "e"), ("Ġt", "he"))
    adapted = with_added_tokens(vocabulary, choose_tokens(vocabulary, table({" heart": 50}), 3))
    assert adapted.size == vocabulary.size + 3
    for text in (" the theory", "then", "it is"):
        old, new = (v.to_tokenizer().encode(text, add_special_tokens=False).tokens for v in (vocabulary, adapted))
        assert old == new


# Unigram.


scores = st.dictionaries(st.text("ab\u2581", min_size=1, max_size=5), st.floats(-20, -0.5, width=32), max_size=15)


@settings(deadline=None)
@given(scores=scores, word=st.text("abc\u2581", max_size=12))
def test_unigram_is_cut_as_the_reference_does(scores: dict[str, float], word: str) -> None:
    vocab = [("<unk>", 0.0), *scores.items()]
    model = models.Unigram(vocab, 0)
    assert list(UnigramCutter(dict(vocab)).cut(word)) == [piece.value for piece in model.tokenize(word)]


@settings(deadline=None)
@given(scores=scores, word=st.text("ab", min_size=2, max_size=8), other=st.text("ab\u2581", max_size=12))
def test_a_new_piece_takes_the_place_of_its_own_pieces(scores: dict[str, float], word: str, other: str) -> None:
    """Fails if a new piece is not reached, or where a text that does not hold it is cut otherwise than before."""
    everything = {"<unk>": 0.0, "a": -9.0, "b": -9.5, "\u2581": -9.0, **scores}
    cuts = UnigramCutter(everything)
    token, before = "\u2581" + word, cuts.cut(other)
    if token in everything:
        return
    together = sum(everything[piece] for piece in cuts.cut(token))
    cuts.add(token)
    assert cuts.cut(token) == (token,)
    assert cuts.scores[token] == max(together + SCORE_MARGIN, min(everything.values()))
    assert cuts.cut(other) == before or token in other
    cuts.remove(token)
    assert cuts.cut(other) == before


@examples(40)
@given(
    scores=st.dictionaries(st.text("ab,\u2581", min_size=2, max_size=5), st.floats(-20, -0.5, width=32), max_size=12),
    counts=st.dictionaries(
        st.text("abc,", min_size=1, max_size=7).map("\u2581{}".format), st.integers(1, 9), max_size=20
    ),
)
def test_unigram_saves_what_it_claims(scores: dict[str, float], counts: dict[str, int]) -> None:
    vocabulary = albert({"\u2581": -9.0, "a": -9.0, "b": -9.5, ",": -8.0, **scores})
    choices = choose_tokens(vocabulary, table(counts), 6, ANY)
    assert all("," not in choice.token for choice in choices)
    check_claims(vocabulary, counts, choices)


def test_a_word_before_a_comma_is_that_word() -> None:
    """Fails if SentencePiece's `gene,` is taken for a word of its own, or keeps `gene` from being counted."""
    counts = {"\u2581gene": 30, "\u2581gene,": 20, "\u2581(gene": 9, "\u2581a": 99}
    vocabulary = albert(dict.fromkeys("▁gena,(", -9.0))
    [chosen] = choose_tokens(vocabulary, table(counts), 5)
    assert (chosen.token, chosen.count, chosen.saved_tokens) == ("\u2581gene", 50, 50 * 4)
    assert chosen.score == pytest.approx(-45 + SCORE_MARGIN) or chosen.score == -9.0
    check_claims(vocabulary, counts, [chosen])
    adapted = with_added_tokens(vocabulary, [chosen])
    assert adapted.tokens == (*vocabulary.tokens, "\u2581gene")
    assert adapted.to_tokenizer().encode("A gene, (gene)", add_special_tokens=False).tokens[:4] == [
        *("\u2581", "a", "\u2581gene", ",")
    ]


# The new vocabulary.


def choice(token: str, *pieces: str) -> Choice:
    return Choice(token=token, count=1, pieces=pieces, saved_tokens=1)


def test_slots_are_filled_first_and_the_rest_is_appended() -> None:
    vocabulary = bert(unused=2)
    adapted = with_added_tokens(vocabulary, [choice("one"), choice("two"), choice("three")])
    assert list_slot_ids(vocabulary) == [5, 6] and list_slot_ids(adapted) == []
    assert [adapted.find_id(token) for token in ("one", "two", "three")] == [5, 6, vocabulary.size]
    assert adapted.size == vocabulary.size + 1
    kept = [n for n in range(vocabulary.size) if n not in (5, 6)]
    assert [adapted.tokens[n] for n in kept] == [vocabulary.tokens[n] for n in kept]
    assert adapted.special_ids == vocabulary.special_ids
    assert adapted.to_files()["vocab.txt"].decode().split("\n")[:8] == [*SPECIALS, "one", "two", "a"]


def test_slots_can_be_left_alone() -> None:
    vocabulary = bert(unused=2)
    adapted = with_added_tokens(vocabulary, [choice("one")], "append")
    assert adapted.find_id("one") == vocabulary.size and list_slot_ids(adapted) == [5, 6]


def test_robertas_fillers_are_slots_and_its_mask_stays() -> None:
    vocabulary = gpt2(more=("madeupword0000", "madeupword0001"))
    adapted = with_added_tokens(vocabulary, [choice("ab", "a", "b"), choice("abc", "ab", "c"), choice("cc", "c", "c")])
    assert [adapted.find_id(token) for token in ("ab", "abc", "<mask>", "cc")] == [260, 261, 262, 263]
    assert adapted.special_ids == vocabulary.special_ids
    assert adapted.to_files()["merges.txt"].decode().split("\n")[1:] == ["a b", "ab c", "c c", ""]


def test_no_choice_gives_an_equal_vocabulary() -> None:
    for vocabulary in (bert("the", unused=1), gpt2(("a", "b"))):
        assert with_added_tokens(vocabulary, []).to_files() == vocabulary.to_files()


def test_special_tokens_beside_the_model_keep_their_ids() -> None:
    """Fails if a new token is given the id of a special token that was added after the model's own."""
    tokenizer = bert().to_tokenizer()
    tokenizer.add_special_tokens([AddedToken("[QUERY]", special=True)])
    vocabulary = Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})
    adapted = with_added_tokens(vocabulary, [choice("gene")])
    assert adapted.tokens == (*vocabulary.tokens, "gene") and vocabulary.tokens[-1] == "[QUERY]"
    assert adapted.special_ids == vocabulary.special_ids
    assert adapted.to_tokenizer().encode("gene [QUERY]", add_special_tokens=False).ids == [
        *(adapted.find_id("gene"), vocabulary.find_id("[QUERY]"))
    ]


def test_a_slot_that_was_made_special_is_none_any_more() -> None:
    tokenizer = bert(unused=2).to_tokenizer()
    tokenizer.add_special_tokens([AddedToken("[unused0]", special=True)])
    assert list_slot_ids(Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})) == [6]


def test_rules_that_are_not_known_are_refused() -> None:
    tokenizer = bert("the").to_tokenizer()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    vocabulary = Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})
    for attempt in (
        lambda: choose_tokens(vocabulary, table({"gene": 9}), 1),
        lambda: with_added_tokens(vocabulary, []),
    ):
        with pytest.raises(InputError, match="rules of its own"):
            attempt()


@pytest.mark.parametrize("token", ["two words", "...", "Upper", "can't", "[MASK]x", ""])
def test_a_token_that_no_text_reaches_is_refused(token: str) -> None:
    with pytest.raises(InputError, match="would never be used"):
        with_added_tokens(bert(), [choice("good"), choice(token)])


def test_a_token_that_is_there_is_refused() -> None:
    with pytest.raises(InputError, match="'the' is in the vocabulary already"):
        with_added_tokens(bert("the"), [choice("the")])
    with pytest.raises(InputError, match="mode"):
        with_added_tokens(bert(), [], "prepend")


def test_the_old_pieces_of_new_tokens() -> None:
    vocabulary = bert("walk", unused=1)
    adapted = with_added_tokens(vocabulary, [choice("walking"), choice("walker")])
    ids = {token: vocabulary.find_id(token) for token in vocabulary.tokens}
    assert find_old_pieces(vocabulary, adapted) == {
        5: tuple(ids[piece] for piece in ("walk", "##i", "##n", "##g")),
        vocabulary.size: tuple(ids[piece] for piece in ("walk", "##e", "##r")),
    }
    with pytest.raises(InputError, match="in the old vocabulary and not in the new one"):
        find_old_pieces(adapted, vocabulary)


@pytest.mark.slow
def test_the_folder_opens_in_transformers(tmp_path: Path, transformers: Any) -> None:
    adapted = {
        "bert": with_added_tokens(bert(unused=1), [choice("lymphoma"), choice("genes")]),
        "roberta": with_added_tokens(gpt2(), [choice("Ġg", "Ġ", "g"), choice("Ġge", "Ġg", "e")]),
        "albert": with_added_tokens(albert(dict.fromkeys("\u2581genslymphoa.", -9.0)), [choice("\u2581gene")]),
    }
    for name, vocabulary in adapted.items():
        vocabulary.save(tmp_path / name)
        assert load_vocabulary(tmp_path / name) == vocabulary
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / f"{name}-again")
        assert tokenizer.mask_token_id == vocabulary.special_ids["mask"]
        for text in ("lymphoma genes", "a gene.", " germ"):
            ids = vocabulary.to_tokenizer().encode(text).ids
            assert tokenizer(text)["input_ids"] == ids
            assert json.loads((tmp_path / f"{name}-again" / "tokenizer.json").read_text())["model"]["vocab"]
