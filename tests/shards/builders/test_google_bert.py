"""The examples of google-research/bert's script: kernel and definition alike, and both like the script itself.

The golden digests were made by the script (`authors_script.py` ran it: commit eedf571, Python 3.11.7, a
stand-in for TensorFlow's flags and files) from the text and vocabulary of this file. With `GOOGLE_BERT` naming a
checkout of github.com/google-research/bert the script is run again.
"""

import json
import os
import random
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from authors_script import AuthorsScript, load_script
from hypothesis import given
from hypothesis import strategies as st
from small_documents import documents_of
from text_columns import assert_equal
from tiers import examples

from corpora.errors import InputError
from corpora.text.buffers import text_buffers
from shards.builders.examples import DocumentTokens, Examples
from shards.builders.google_bert.builder import ScriptSettings, check_masks, google_bert_examples
from shards.builders.google_bert.plain import google_bert_plain
from shards.builders.google_bert.python_random import below_of, python_random, random_one, shuffle
from shards.masks.masking import Masks, MaskSettings, ShardVocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.vocabularies.vocabulary import Vocabulary, bert_vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = "the boat river light keep was and never see sea win wind stone he she it of to un old under"
ENDINGS = "##house ##er ##es ##ing ##side ##ter ##ow ##known ##ly ##stand"
PIECES = (*SPECIAL, "[unused0]", *LETTERS, *".,!?-'", *(f"##{x}" for x in LETTERS), *WORDS.split(), *ENDINGS.split())
DOCUMENTS = (
    (
        "The lighthouse keeper never understands the winter.",
        "He keeps stones.",
        "She was seeing windows under the river, and it was old!",
        "Unknowingly.",
        "To keep the sea and to see the seaside was never the old keeper's light.",
    ),
    ("One line is all of it.",),
    ("?",),
    (
        (
            "The boats of the unknown river, old boats, keepers of stones and winds, of windows and winters, of lights "
            "and lighthouses, understanding nothing: the sea, the sea, the sea; and under the sea the stones, and the "
            "wind under the stones, and it was never seen, never, never to be seen, he said, by who keeps the lights."
        ),
        "Yes.",
        "No.",
    ),
    ("Zürich, 東京 and Ωmega are unknown to it.", "Xylophones!", "Quick brown boats.", "It was."),
    tuple(f"{word} the {other}." for word in ("see", "keep", "stone", "wind") for other in ("sea", "boat", "river")),
)
CASES = {
    "defaults": ScriptSettings(),
    "short": ScriptSettings(length=16, copies=3, seed=1),
    "shortest": ScriptSettings(length=5, copies=2, seed=2, short_sequence_probability=1.0),
    "never shorter": ScriptSettings(length=64, copies=4, seed=3, short_sequence_probability=0.0),
    "whole words": ScriptSettings(length=32, copies=5, seed=4, whole_words=True),
    "whole words, short": ScriptSettings(length=11, copies=5, seed=2**40 + 5, whole_words=True, rate=0.3),
    "one mask": ScriptSettings(length=48, copies=2, seed=0, max_predictions=1),
    "no bound": ScriptSettings(length=512, copies=7, seed=2**64 - 1, rate=0.5, max_predictions=None, whole_words=True),
    "every token": ScriptSettings(length=20, copies=2, rate=1.0, max_predictions=100),
}
ONE, TWO = DOCUMENTS[:1], DOCUMENTS[1:4:2]
GOLDEN = {
    "defaults": (90, "065047d120780058"),
    "short": (53, "716e2a55f33df1b1"),
    "shortest": (52, "c94af1547c855eaa"),
    "never shorter": (38, "1093a211d1a63bf2"),
    "whole words": (62, "8e4e02444fa79364"),
    "whole words, short": (100, "06baea8218ac873a"),
    "one mask": (17, "36c68244d05bf6e5"),
    "no bound": (59, "3300e44b7491b766"),
    "every token": (31, "68609844599fd937"),
    "one document": (62, "d486165bdced8ef9"),
    "two documents": (71, "c8cf85bf22888939"),
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return bert_vocabulary(PIECES, max_word_length=200)


def tokenised(documents: Any, vocabulary: Vocabulary) -> DocumentTokens:
    """Documents of sentences, tokenised sentence by sentence; what has no tokens is left out."""
    texts = pa.array([sentence for document in documents for sentence in document], pa.large_string())
    offsets = text_buffers(texts).offsets.astype(np.int64)
    encoded = Encoder(vocabulary).encode_sentences(texts, offsets[:-1], offsets[1:])
    sizes = np.diff(encoded.offsets)
    of_document = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    held = np.bincount(of_document[sizes > 0], minlength=len(documents))
    held = held[held > 0]
    return DocumentTokens(
        ids=encoded.ids.astype(np.uint16),
        word_starts=encoded.word_starts,
        sentences=np.cumsum([0, *sizes[sizes > 0]], dtype=np.int64),
        documents=np.cumsum([0, *held], dtype=np.int64),
        keys=np.arange(1, len(held) + 1, dtype=np.uint64) * np.uint64(7919),
    )


def vocabulary_of(vocabulary: Vocabulary) -> ShardVocabulary:
    return ShardVocabulary(vocabulary.size, vocabulary.special_ids)


def instances_of(examples: Examples, masks: Masks, tokens: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Examples as the script has them: tokens under masks, segments, is_random_next, positions and labels of masks."""
    assert examples.label is not None
    found = []
    for row, (start, end) in enumerate(pairwise(examples.offsets.tolist())):
        ids = examples.ids[start:end].astype(np.int64)
        held = slice(masks.offsets[row], masks.offsets[row + 1])
        positions = masks.positions[held].astype(np.int64)
        labels = [tokens[id] for id in ids[positions]]
        ids[positions] = masks.replacements[held]
        segments = (np.arange(len(ids)) >= examples.boundary[row]).astype(int).tolist()
        found.append(([tokens[id] for id in ids], segments, bool(examples.label[row]), positions.tolist(), labels))
    return found


def instances_of_script(made: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (each.tokens, each.segment_ids, each.is_random_next, each.masked_lm_positions, each.masked_lm_labels)
        for each in made
    ]


def digest_of(instances: list[tuple[Any, ...]]) -> str:
    return sha256(json.dumps(instances, ensure_ascii=True).encode()).hexdigest()[:16]


def made_here(documents: Any, chosen: ScriptSettings, vocabulary: Vocabulary) -> list[tuple[Any, ...]]:
    examples, _, masks, _ = google_bert_examples(tokenised(documents, vocabulary), chosen, vocabulary_of(vocabulary))
    assert masks is not None
    return instances_of(examples, masks, vocabulary.tokens)


def golden_cases() -> dict[str, tuple[Any, ScriptSettings]]:
    cases: dict[str, tuple[Any, ScriptSettings]] = {name: (DOCUMENTS, chosen) for name, chosen in CASES.items()}
    lengthy = ScriptSettings(length=24, copies=20)
    return cases | {"one document": (ONE, lengthy), "two documents": (TWO, lengthy)}


@pytest.mark.parametrize("name", GOLDEN)
def test_instances_are_the_scripts(name: str, vocabulary: Vocabulary) -> None:
    """Tokens, segments, labels and masks in the script's order; each case has its own digest."""
    made = made_here(*golden_cases()[name], vocabulary)
    assert (len(made), digest_of(made)) == GOLDEN[name]


@pytest.fixture(scope="module")
def script() -> AuthorsScript:
    folder = os.environ.get("GOOGLE_BERT")
    if not folder:
        pytest.skip("GOOGLE_BERT names no checkout of github.com/google-research/bert")
    return load_script(Path(folder))


def lines_of(documents: Any) -> list[str]:
    return [line for document in documents for line in (*document, "")]


@pytest.mark.parametrize("name", golden_cases())
def test_the_script_makes_the_golden_instances(
    name: str, script: AuthorsScript, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    """The digests of this file are the script's, its tokenizer's tokens included."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    documents, chosen = golden_cases()[name]
    made = script.instances(lines_of(documents), script.tokenizer(tmp_path / "vocab.txt"), chosen)
    assert (len(made), digest_of(instances_of_script(made))) == GOLDEN[name]


SIZE = 120
SMALL = ShardVocabulary(SIZE, {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4})


def drawn_columns(shapes: list[list[int]], continued: float, seed: int) -> DocumentTokens:
    """Documents given by the lengths of their sentences; ids of the upper half of SIZE continue words."""
    columns = documents_of(shapes, 1 - continued, seed)
    ids = np.random.default_rng(seed).integers(5, SIZE // 2, len(columns.ids))
    return columns._replace(ids=(ids + (1 - columns.word_starts) * (SIZE // 2 - 5)).astype(np.uint16))


@given(
    st.lists(st.lists(st.integers(1, 12) | st.just(90), min_size=1, max_size=8), max_size=6),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.builds(
        ScriptSettings,
        length=st.integers(5, 40),
        short_sequence_probability=st.sampled_from([0.0, 0.1, 1.0]),
        copies=st.integers(1, 3),
        seed=st.integers(0, 2**64 - 1),
        rate=st.sampled_from([0.01, 0.15, 0.5, 1.0]),
        whole_words=st.booleans(),
        max_predictions=st.sampled_from([1, 5, None]),
    ),
    st.integers(0, 100),
)
@examples(150)
def test_kernels_equal_the_definition(
    shapes: list[list[int]], continued: float, chosen: ScriptSettings, seed: int
) -> None:
    """Columns, ledgers and masks, for no document, one, single words, sentences longer than an example."""
    columns = drawn_columns(shapes, continued, seed)
    made, ledgers, masks, surfaces = google_bert_examples(columns, chosen, SMALL)
    assert surfaces is not None and surfaces.sum() == len(made.copy)
    plain, plain_ledgers, plain_masks, _ = google_bert_plain(columns, chosen, SMALL)
    assert ledgers == plain_ledgers
    assert_equal(made, plain)
    assert_equal(masks, plain_masks)
    assert len(np.unique(made.example_id)) == len(made.example_id)


def test_a_plan_goes_on_where_its_rows_or_masks_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of more examples than one call of the kernel plans."""
    columns = drawn_columns([[7] * 30] * 9, 0.3, 0)
    chosen = ScriptSettings(length=24, copies=3, max_predictions=2)
    whole = google_bert_examples(columns, chosen, SMALL)
    monkeypatch.setattr("shards.builders.google_bert.builder._ROWS", 5)
    pieces = google_bert_examples(columns, chosen, SMALL)
    assert whole.masks is not None and pieces.masks is not None
    for left, right in zip(whole.examples + whole.masks, pieces.examples + pieces.masks, strict=True):
        np.testing.assert_array_equal(left, right)
    assert len(whole.examples.copy) > 3 * 5


def test_a_single_document_is_its_own_random_next() -> None:
    """As in the script: the label says random, and the document is listed once."""
    examples, (ledger,), _, _ = google_bert_examples(
        drawn_columns([[9] * 40], 0.0, 0), ScriptSettings(length=32, copies=1), SMALL
    )
    assert examples.label is not None and examples.label.any() and not examples.second_document.any()
    assert np.diff(examples.document_offsets).tolist() == [1] * len(examples.label)
    assert ledger.figures["random"] == ledger.figures["random_of_the_same_document"] == int(examples.label.sum())


def test_tokens_that_are_placed_are_those_of_the_examples() -> None:
    columns = drawn_columns([[5, 60, 7, 8] * 3] * 40, 0.3, 1)
    examples, ledgers, _, _ = google_bert_examples(columns, ScriptSettings(length=48, copies=2), SMALL)
    assert examples.label is not None
    lengths, a = np.diff(examples.offsets) - 3, examples.boundary.astype(np.int64) - 2
    for copy, ledger in enumerate(ledgers):
        here = examples.copy == copy
        account, random_b = ledger.account("tokens"), here & (examples.label == 1)
        assert account.total == len(columns.ids) and account.outcomes["truncated"] > 0
        assert account.outcomes["placed"] == a[here].sum() + (lengths - a)[here & (examples.label == 0)].sum()
        assert ledger.figures["borrowed"] == (lengths - a)[random_b].sum() > 0


@pytest.mark.parametrize(
    ("key", "value"), [("kind", "dynamic"), ("unit", "n-gram"), ("count", "independent"), ("mask_share", 0.7)]
)
def test_masks_that_the_script_does_not_make_are_refused(key: str, value: Any) -> None:
    check_masks(MaskSettings(kind="static", unit="whole-word", rate=0.3, max_predictions=20, seed=1))
    with pytest.raises(InputError, match=rf"shards\.masking\.{key} = .* does not go with shards\.compat"):
        check_masks(MaskSettings(**{"kind": "static", key: value}))


@given(st.integers(0, 2**70), st.lists(st.integers(1, 2**32 - 1) | st.just(0), max_size=40))
@examples(100)
def test_the_generator_is_pythons(seed: int, bounds: list[int]) -> None:
    """Numbers below bounds and real numbers (for 0), mixed; a shuffle at the end takes more than one block of words."""
    state, generator = python_random(seed), random.Random(seed)
    for bound in bounds:
        if bound:
            assert below_of(state, bound) == generator.randrange(bound)
        else:
            assert random_one(state) == generator.random()
    items, expected = np.arange(1500), list(range(1500))
    shuffle(state, items)
    generator.shuffle(expected)
    assert items.tolist() == expected
