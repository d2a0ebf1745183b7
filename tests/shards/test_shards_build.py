"""The tokens and shards stages: every token in one shard of its generation and split, whatever the cut."""

import pickle
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import put_corpus, row, words

from corpora.build import Corpus
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage, survey_stage
from corpora.store.tables import read_part_table, read_table
from shards.build import MIN_DOCUMENTS_TO_SPLIT, plan_shards
from shards.inputs import INPUTS
from shards.masks.masking import MaskSettings
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader, gather_plain
from shards.settings import ShardSettings
from shards.tokens import compute_shuffle_keys, plan_tokens
from tokenizers_train.build import plan_counts, plan_vocabulary, read_vocabulary
from tokenizers_train.encoding.encoder import build_text_tokenizer
from tokenizers_train.vocabularies.settings import VocabularySettings

LENGTH = 32


class Bench(NamedTuple):
    """A corpus with its vocabulary and tokens."""

    place: Place
    corpus: Corpus
    vocabulary: Manifest
    tokens: Manifest

    def plan(self, **settings: Any) -> Stage:
        chosen = ShardSettings(length=LENGTH, **settings)
        return plan_shards(
            self.corpus, self.tokens, self.vocabulary, read_vocabulary(self.place, self.vocabulary), chosen
        )

    def shards(self, **settings: Any) -> Manifest:
        return build_stage(self.place, self.plan(**settings))


def build_bench(place: Place, corpus: Corpus, seed: int = 7) -> Bench:
    counts = build_stage(place, plan_counts(corpus, VocabularySettings(size=150).word_rule))
    vocabulary = build_stage(place, plan_vocabulary("v", counts, VocabularySettings(size=150), {}))
    return Bench(place, corpus, vocabulary, build_stage(place, plan_tokens(corpus, vocabulary, seed)))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Two generations in three parts: 90 and 30 documents, every fifth one held out."""
    place = Place(str(tmp_path_factory.mktemp("shards")))
    rows = [row(n, words(n, 3 + n % 7), generation=1 + (n >= 90), held_out=n % 5 == 0) for n in range(120)]
    parts = {"g001-a-00000": rows[:50], "g001-b-00000": rows[50:90], "g002-a-00000": rows[90:]}
    return build_bench(place, put_corpus(place, parts))


def table_rows(bench: Bench, manifest: Manifest, table: str) -> list[dict[str, Any]]:
    return [row for batch in read_table(bench.place, manifest, table) for row in batch.to_pylist()]


def test_tokens_are_those_of_the_encoder_sorted_by_shuffle(bench: Bench) -> None:
    """Fails if a row's tokens are another's after the sort, or a part is not in the order that shards read."""
    tokenizer = build_text_tokenizer(read_vocabulary(bench.place, bench.vocabulary))  # the reference, a text at a time
    texts = {document.id: document.text for document in bench.corpus.iter_documents()}
    for part in bench.tokens.parts:
        rows = table_rows(bench, bench.tokens.with_parts((part,)), "tokens")
        assert [row["shuffle"] for row in rows] == sorted(row["shuffle"] for row in rows)
        assert [row["shuffle"] for row in rows] == compute_shuffle_keys([row["id"] for row in rows], 7).tolist()
        for found in rows:
            assert found["ids"] == tokenizer.encode(texts[found["id"]], add_special_tokens=False).ids
    assert bench.tokens.count_rows("tokens") == 120


def test_a_document_without_tokens_is_counted(tmp_path: Path) -> None:
    """Fails if a document that the tokenizer leaves nothing of is lost without a count, or breaks a shard."""
    place = Place(str(tmp_path))
    rows = [*(row(n, words(n)) for n in range(6)), row(6, "\u00ad\u200b")]
    bench = build_bench(place, put_corpus(place, {"g001-a-00000": rows}))
    assert bench.tokens.ledger.find_account("documents").outcomes == {"tokenised": 6, "without tokens": 1}
    assert bench.shards().ledger.figures["documents"] == 6


def test_a_small_generation_is_one_shard(bench: Bench) -> None:
    """Fails if few documents are spread so thin that a random sentence has few to be drawn from."""
    assert MIN_DOCUMENTS_TO_SPLIT > 120
    names = [part.name for part in bench.shards(target_tokens=1_000).parts]
    assert names == ["train-g001-00000", "held-out-g001-00000", "train-g002-00000", "held-out-g002-00000"]


def test_every_document_is_in_one_shard(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a range of the hash is left out, taken twice, or crosses generation or split."""
    monkeypatch.setattr("shards.build.MIN_DOCUMENTS_TO_SPLIT", 1)
    manifest = bench.shards(target_tokens=1_001)  # the store holds the one of 1,000 with one shard a generation
    of = {r["id"]: (r["generation"], r["held_out"], r["shuffle"]) for r in _with_shuffle(bench)}
    seen: Counter[bytes] = Counter()
    shards: Counter[tuple[str, str]] = Counter()
    for part in manifest.parts:
        rows = table_rows(bench, manifest.with_parts((part,)), "examples")
        documents = {document for row in rows for document in row["documents"]}
        seen.update(documents)
        kind = (part.labels["generation"], part.labels["split"])
        shards[kind] += 1
        assert {(str(of[d][0]), "held-out" if of[d][1] else "train") for d in documents} <= {kind}
        assert part.ledger.figures["documents"] >= len(documents)
    assert set(seen.values()) == {1}
    assert manifest.ledger.figures["documents"] == len(of) == 120
    assert manifest.ledger.figures["documents"] - len(seen) <= 3  # alone in a shard, they find no partner
    figures = [part.ledger.figures for part in bench.tokens.parts if part.labels["generation"] == "1"]
    assert shards["1", "train"] == round(sum(f["train tokens"] for f in figures) / 1_001) > 2


def _with_shuffle(bench: Bench) -> list[dict[str, Any]]:
    rows = [
        row
        for batch in bench.corpus.iter_batches()
        for row in batch.select(["id", "generation", "held_out"]).to_pylist()
    ]
    keys = compute_shuffle_keys([row["id"] for row in rows], 7).tolist()
    return [{**row, "shuffle": key} for row, key in zip(rows, keys, strict=True)]


def test_the_cut_into_token_parts_changes_no_example(bench: Bench, tmp_path: Path) -> None:
    """Fails if a shard depends on how the corpus' rows are spread over parts."""
    place = Place(str(tmp_path))
    rows = [row for batch in bench.corpus.iter_batches() for row in batch.to_pylist()]
    one, two = rows[:90], rows[90:]
    parts = {**{f"g001-a-{n:05d}": one[n * 9 : n * 9 + 9][::-1] for n in range(10)}, "g002-a-00000": two}
    other = build_bench(place, put_corpus(place, parts))
    assert other.shards(copies=2).tables == bench.shards(copies=2).tables


def _is_stretch(piece: list[int], whole: list[int]) -> bool:
    return bool(piece) and any(whole[at : at + len(piece)] == piece for at in range(len(whole) - len(piece) + 1))


@pytest.mark.parametrize("static", [False, True])
def test_masks_stand_in_the_shard_or_not(bench: Bench, static: bool) -> None:
    """Fails if dynamic shards carry masks, static ones none, or both hold masked ids."""
    manifest = bench.shards(masking=MaskSettings(kind="static" if static else "dynamic"), copies=2)
    rows = table_rows(bench, manifest, "examples")
    assert ("mask_positions" in rows[0]) == static
    assert manifest.facts["masking"] == ("static" if static else "dynamic")
    plain = table_rows(bench, bench.shards(copies=2), "examples")
    assert [row["ids"] for row in rows] == [row["ids"] for row in plain]


def test_another_target_keeps_the_shards_it_does_not_cut(bench: Bench, tmp_path: Path) -> None:
    """Fails if a setting that only decides how many shards there are builds equal ones again."""
    bench.shards(target_tokens=2_000_000)
    survey = survey_stage(bench.place, bench.plan(target_tokens=3_000_000))
    assert survey.manifest is None and survey.missing == ()


def test_jobs_do_not_grow_with_the_number_of_parts(bench: Bench, tmp_path: Path) -> None:
    """Fails if the job or the key of a shard holds something of every part of its generation."""
    rows = [row(n, words(n)) for n in range(90)]
    corpus = put_corpus(Place(str(tmp_path)), {f"g001-a-{n:05d}": [each] for n, each in enumerate(rows)})
    many = build_bench(Place(str(tmp_path)), corpus)
    assert len(many.tokens.parts) == 90
    few, all_parts = (survey_stage(each.place, each.plan(seed=99)).missing[0] for each in (bench, many))
    assert abs(len(pickle.dumps(few)) - len(pickle.dumps(all_parts))) < 20


def test_tokens_are_written_in_batches_of_some_tokens(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a shard of many must unpack far more documents than it takes."""
    monkeypatch.setattr("shards.tokens.BATCH_TOKENS", 200)
    stage = plan_tokens(bench.corpus, bench.vocabulary, 8)
    small = build_stage(bench.place, stage)
    counts = []
    for part in small.parts:
        for batch in read_part_table(bench.place, small.stage_folder, part, "tokens", ("ids",)):
            counts.append([len(ids) for ids in batch.column("ids").to_pylist()])
    assert len(counts) > 10 and max(map(sum, counts)) > 200
    assert all(sum(lengths[:-1]) < 200 for lengths in counts)
    monkeypatch.undo()
    assert small.count_rows("tokens") == 120 and survey_stage(bench.place, stage).manifest == small


def test_the_delete_list_is_a_part_of_its_own(tmp_path: Path) -> None:
    """Fails if what the corpus lost is not listed, or an old shard is written again for it."""
    place = Place(str(tmp_path))
    old = {"g001-a-00000": [row(n, words(n)) for n in range(10)]}
    first = build_bench(place, put_corpus(place, old))
    before = first.shards()
    new = {**old, "g002-a-00000": [row(n, words(100 + n), generation=2, revision=2) for n in (3, 4, 5)]}
    corpus = put_corpus(place, new, deleted=[row(n, "") for n in (3, 4, 5)])
    tokens = build_stage(place, plan_tokens(corpus, first.vocabulary, 7))
    grown = Bench(place, corpus, first.vocabulary, tokens)
    after = grown.shards()
    assert [part for part in after.parts if part.labels.get("generation") == "1"] == list(before.parts)
    assert {row["id"] for row in table_rows(grown, after, "deleted")} == {row(n, "")["id"] for n in (3, 4, 5)}
    assert after.ledger.find_account("deleted rows").outcomes == {"listed": 3}


def test_facts_are_what_a_reader_needs(bench: Bench) -> None:
    """Fails if a trainer would have to open the vocabulary."""
    facts = bench.shards().facts
    vocabulary = read_vocabulary(bench.place, bench.vocabulary)
    assert (facts["length"], facts["vocab_size"], facts["splits"]) == (LENGTH, vocabulary.size, ["train", "held-out"])
    assert facts["special_ids"] == dict(vocabulary.special_ids)
    [first, *_] = read_table(bench.place, bench.shards(), "examples")
    assert first.column("ids").type.value_type == pa.uint16()


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_is_built_and_read_back(bench: Bench, kind: str) -> None:
    """Fails if the columns of an input are not those of its facts, a copy's ledger does not balance, a segment is of
    another document than the row says, or a batch is not made of the rows."""
    own = INPUTS[kind]
    manifest = bench.shards(input=kind, copies=2, masking=MaskSettings(kind="dynamic" if own.masked else "none"))
    assert manifest.facts["segments"] == own.segments and manifest.facts["labels"] == own.labels
    total = sum(len(row["ids"]) for row in table_rows(bench, bench.tokens, "tokens"))
    accounts = [account for account in manifest.ledger.accounts if account.unit.startswith("tokens of copy")]
    assert [sum(account.outcomes.values()) for account in accounts] == [total, total]
    ids = {row["id"]: row["ids"] for row in table_rows(bench, bench.tokens, "tokens")}
    rows = table_rows(bench, manifest, "examples")
    assert len({example["example_id"] for example in rows}) == len(rows)
    assert {example["copy"] for example in rows} == {0, 1} and ("label" in rows[0]) == (own.labels is not None)
    for example in rows:
        first, second = example["ids"][1 : example["boundary"]], example["ids"][example["boundary"] :]
        assert len(example["ids"]) <= LENGTH and (own.segments == 2 or not second)
        if own.segments == 2:
            assert _is_stretch(first[:-1], ids[example["documents"][0]])
            assert not second or _is_stretch(second[:-1], ids[example["documents"][example["second_document"]]])
    shard_set, slots = ShardSet(bench.place, manifest), range(30)
    gathered, plain = Loader(shard_set, 3).gather(slots), gather_plain(shard_set, 3, slots)
    for field in fields(plain):
        np.testing.assert_array_equal(getattr(gathered, field.name), getattr(plain, field.name), err_msg=field.name)


def test_shards_of_some_sources(tmp_path: Path) -> None:
    """Fails if another source's documents get in, also by a part that says of no source that it is its own, or
    where a new row of another source builds these shards again."""
    first = [row(n, words(n), source="a") for n in range(20)]
    others = [row(n, words(n), source="b") for n in range(20, 40)]
    back = [row(n, words(n), generation=2, source="ab"[n % 2]) for n in range(40, 60)]
    place = Place(str(tmp_path))
    bench = build_bench(place, put_corpus(place, {"g001-a-0": first, "g001-b-0": others, "g002-changes": back}))
    manifest = bench.shards(sources=("a",))
    ids = {document for row in table_rows(bench, manifest, "examples") for document in row["documents"]}
    assert ids == {row["id"] for row in [*first, *back[::2]]}
    grown = put_corpus(place, {"g001-a-0": first, "g001-b-0": others[:-1], "g002-changes": back})
    tokens = build_stage(place, plan_tokens(grown, bench.vocabulary, 7))
    again = bench._replace(corpus=grown, tokens=tokens)
    assert survey_stage(place, again.plan(sources=("a",))).missing == ()
    assert survey_stage(place, again.plan(sources=("b",))).missing
