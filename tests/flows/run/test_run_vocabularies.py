"""Vocabularies in a run: of every algorithm, brought by the user, pinned to a generation, and their drift."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import Run, World, new_world, note, page, prose
from tokenizers import Tokenizer, models, pre_tokenizers

from corpora.errors import InputError
from corpora.store.tables import read_part_table
from corpora.views import read_view
from flows.report.vocabularies import build_drift_rows
from tokenizers_train.build import read_vocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BROUGHT = build_bert_vocabulary((*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), ".", ",", "the", "of"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = new_world(tmp_path)
    world.put("pages", "a", [page(str(n), prose(n)) for n in range(30)])
    world.put("notes", "n", [note(n, prose(1000 + n)) for n in range(10)])
    return world


def with_vocabulary(world: World, keys: str) -> World:
    assert "[vocabulary]\nsize = 400\n" in world.text
    return replace(world, text=world.text.replace("[vocabulary]\nsize = 400\n", f"[vocabulary]\n{keys}\n"))


def vocabulary_of(run: Run) -> Vocabulary:
    return read_vocabulary(run.place, run.outcome.vocabulary)


def assert_tokens_are_the_reference(run: Run) -> None:
    """Every document's tokens, sentence by sentence, are what tokenizers gives."""
    [tokens] = run.of("tokens")
    vocabulary, compared = vocabulary_of(run), 0
    texts = {
        bytes(row["id"]): row["text"]
        for view in run.corpus.views
        for batch in read_view(run.place, view, ("id", "text"))
        for row in batch.to_pylist()
    }
    tokenizer = vocabulary.to_tokenizer()
    for part in tokens.manifest.parts:
        for batch in read_part_table(run.place, f"tokens/{tokens.stage.name}", part, "tokens"):
            for row in batch.to_pylist():
                whole = tokenizer.encode(texts[bytes(row["id"])], add_special_tokens=False).ids
                assert len(row["ids"]) == sum(row["sentence_lengths"]) == len(row["word_starts"])
                if vocabulary.algorithm == "wordpiece":  # no token goes from one sentence to the next
                    assert row["ids"] == whole
                compared += len(whole)
    assert compared > 1000


@pytest.mark.parametrize(
    ("keys", "algorithm"),
    [
        ("size = 400", "wordpiece"),
        ('algorithm = "byte-bpe"\nsize = 400', "byte-bpe"),
        ('algorithm = "unigram"\nsize = 200\nspecial_tokens = ["[E1]", "[E2]"]', "unigram"),
    ],
)
def test_a_run_of_every_algorithm(world: World, keys: str, algorithm: str) -> None:
    run = with_vocabulary(world, keys).run()
    vocabulary = vocabulary_of(run)
    assert vocabulary.algorithm == algorithm
    assert set(vocabulary.special_ids) >= {"pad", "unk", "cls", "sep", "mask"}
    assert run.outcome.shards.count_rows("examples") > 0
    assert run.outcome.shards.facts["special_ids"] == dict(sorted(vocabulary.special_ids.items()))
    assert_tokens_are_the_reference(run)
    if algorithm == "unigram":
        assert vocabulary.tokens[5:7] == ("[E1]", "[E2]")
        assert {"(", ")", '"', "-", ".", "\u2013", "\u00a3", "\u20ac"} < {*vocabulary.tokens}


def test_a_vocabulary_that_exists_is_taken_as_it_is(world: World, tmp_path: Path) -> None:
    """Fails if the folder is not found next to the recipe, or anything of it changes on the way."""
    BROUGHT.save(tmp_path / "mine")
    world = with_vocabulary(world, 'path = "mine"')
    run = world.run()
    assert vocabulary_of(run) == BROUGHT
    assert vocabulary_of(run).to_files() == BROUGHT.to_files()
    [measures] = run.of("measures")
    assert measures.manifest.ledger.find_account("words").total > 1000
    assert_tokens_are_the_reference(run)
    assert [stage.reused for stage in world.run().stages] == [True] * len(run.stages)


def test_a_changed_folder_is_another_vocabulary(world: World, tmp_path: Path) -> None:
    BROUGHT.save(tmp_path / "mine")
    world = with_vocabulary(world, 'path = "mine"')
    first = world.run().outcome
    build_bert_vocabulary((*BROUGHT.tokens, "and")).save(tmp_path / "mine")
    second = world.run().outcome
    assert first.vocabulary.fingerprint != second.vocabulary.fingerprint
    assert first.shards.fingerprint != second.shards.fingerprint
    assert first.corpus.fingerprint == second.corpus.fingerprint


def test_a_bare_list_of_words(world: World, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\r\n".join(BROUGHT.tokens), encoding="utf-8", newline="")
    run = with_vocabulary(world, 'path = "words.txt"').run()
    assert vocabulary_of(run).tokens == BROUGHT.tokens
    assert vocabulary_of(run).lowercase


def test_a_tokenizer_that_no_kernel_knows_still_makes_shards(world: World, tmp_path: Path) -> None:
    words = sorted({word for n in range(10) for word in prose(n).replace(".", "").lower().split()})
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate((*SPECIALS, *words))}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    run = with_vocabulary(world, 'path = "tokenizer.json"').run()
    assert vocabulary_of(run).word_rule is None
    assert vocabulary_of(run).to_tokenizer().encode("").ids == [2, 3], "a model needs the special tokens around a text"
    assert "rules that the kernels do not know" in run.outcome.vocabulary.facts["notice"]
    assert run.outcome.shards.count_rows("examples") > 0
    [tokens] = run.of("tokens")
    assert tokens.manifest.ledger.figures["train unknown tokens"] > 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('path = "nowhere"', "There is no tokenizer at .*nowhere"),
        ('path = "mine"\nsize = 300', "vocabulary.size is given with vocabulary.path"),
        ("path = 3", "vocabulary.path = 3 is of the wrong type"),
        ('algorithm = "unigram"\nunused = 10', "wordpiece alone has it"),
        ('path = "headless"', "headless has no cls or sep or mask token"),
    ],
)
def test_a_wrong_vocabulary_is_refused(world: World, tmp_path: Path, keys: str, message: str) -> None:
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2}, unk_token="[UNK]"))
    (tmp_path / "headless").mkdir()
    (tmp_path / "headless/tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    world = with_vocabulary(world, keys)
    with pytest.raises(InputError, match=message):
        world.run()
    assert not (tmp_path / "store").exists(), "it was found out late"


def test_the_drift_of_a_pinned_vocabulary_is_told(world: World) -> None:
    """Later generations reuse the first one's vocabulary; the ledger says how well it still fits, for each."""
    first = world.run()
    ills = " the glomerulonephritis and the thrombocytopenia "
    world.put("notes", "later", [note(5000 + n, prose(5000 + n).replace(" the ", ills)) for n in range(10)])
    second = world.run()
    assert second.outcome.vocabulary.fingerprint == first.outcome.vocabulary.fingerprint
    before, after = (row["tokens_a_word"] for row in build_drift_rows(second.manifest("tokens")))
    assert after > 1.5 * before > 1.5
