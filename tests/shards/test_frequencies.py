"""Random tokens by frequency: counted once, kept with the shards, drawn as often as they occur."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import put_corpus, row, words

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.store.tables import read_table
from flows.report.masked_example import get_example_masks
from shards.build import plan_shards
from shards.frequencies import read_frequencies
from shards.masks.masking import MaskSettings, ShardVocabulary, build_mask_vocabulary, draw_masks, with_frequencies
from shards.masks.plain import draw_masks_plain
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader, gather_plain
from shards.settings import ShardSettings
from shards.tokens import plan_tokens
from tokenizers_train.build import plan_counts, plan_vocabulary, read_vocabulary
from tokenizers_train.vocabularies.settings import VocabularySettings

SPECIAL = {"cls": 0, "sep": 1, "mask": 4}
FACTS = build_mask_vocabulary(ShardVocabulary(12, SPECIAL))


def put(place: Place, generations: int, kind: str, sources: tuple[str, ...] = ()) -> tuple[Manifest, Manifest]:
    """Tokens and shards of documents in two sources, of one generation or two; every fifth held out."""
    rows = [row(n, words(n), generation=1, held_out=n % 5 == 0, source="ab"[n % 2]) for n in range(30)]
    later = [row(n, words(n), generation=2, held_out=n % 5 == 0, source="ab"[n % 2]) for n in range(30, 50)]
    parts = {"g001-a-00000": rows[::2], "g001-b-00000": rows[1::2], "g002-changes": later}
    corpus = put_corpus(place, dict(list(parts.items())[: generations + 1]))
    chosen = VocabularySettings(size=150)
    first = put_corpus(place, dict(list(parts.items())[:2]))
    vocabulary = build_stage(
        place, plan_vocabulary("v", build_stage(place, plan_counts(first, chosen.word_rule)), chosen, {})
    )
    tokens = build_stage(place, plan_tokens(corpus, vocabulary, 7))
    settings = ShardSettings(length=32, sources=sources, masking=MaskSettings(kind=kind, random="frequency", rate=0.5))
    words_of = read_vocabulary(place, vocabulary)
    return tokens, build_stage(place, plan_shards(corpus, tokens, vocabulary, words_of, settings))


@pytest.mark.parametrize("sources", [(), ("b",)])
def test_the_counts_are_those_of_the_first_generation(tmp_path: Path, sources: tuple[str, ...]) -> None:
    """Fails if held-out text, a later generation or another source is counted, or the reader finds other counts."""
    place = Place(str(tmp_path))
    tokens, shards = put(place, 2, "dynamic", sources)
    wanted = np.zeros(shards.facts["vocab_size"], np.int64)
    for part in tokens.parts:
        for batch in read_table(place, tokens.with_parts((part,)), "tokens"):
            for found in batch.to_pylist():
                of = part.labels["generation"] == "1" and not found["held_out"]
                if of and (not sources or found["source"] in sources):
                    wanted += np.bincount(found["ids"], minlength=len(wanted))
    assert wanted.sum() > 200
    assert read_frequencies(place, shards).tolist() == wanted.tolist()
    assert shards.ledger.figures["counted tokens"] == wanted.sum()


def test_a_later_generation_changes_no_mask(tmp_path: Path) -> None:
    """Fails if old shards are built again, or read under other masks, because there are new documents."""
    place = Place(str(tmp_path))
    for kind in ("dynamic", "static"):
        _, before = put(place, 1, kind)
        _, after = put(place, 2, kind)
        old = {part.name: part for part in before.parts}
        assert {part.name: part for part in after.parts if part.name in old} == old and len(after.parts) > len(old)
        assert read_frequencies(place, before).tolist() == read_frequencies(place, after).tolist()


def test_the_loader_draws_by_frequency(tmp_path: Path) -> None:
    """Fails if reader, definition, report and static masks take another one's random ids."""
    place = Place(str(tmp_path))
    shard_set = ShardSet(place, put(place, 1, "dynamic")[1])
    slots = range(3 * len(shard_set))
    found, plain = Loader(shard_set, 3).gather(slots), gather_plain(shard_set, 3, slots)
    assert found.ids.tolist() == plain.ids.tolist() and found.masked.tolist() == plain.masked.tolist()
    counts = read_frequencies(place, shard_set.manifest)
    drawn = found.ids[found.masked]
    drawn = drawn[(drawn != found.targets) & (drawn != shard_set.manifest.facts["special_ids"]["mask"])]
    assert len(drawn) > 50 and counts[drawn].min() > 0
    static = ShardSet(place, put(place, 1, "static")[1])
    for number in range(20):
        masks = get_example_masks(shard_set, shard_set[number])
        assert masks.positions.tolist() == static[number].mask_positions.tolist()
        assert masks.replacements.tolist() == static[number].mask_ids.tolist()


@given(st.lists(st.integers(0, 1 << 40), min_size=12, max_size=12))
def test_weights_are_the_shares_of_the_counts(counts: list[int]) -> None:
    """Fails if an id's probability differs from its share of the ordinary tokens by more than 2^-32."""
    facts = with_frequencies(FACTS, np.array(counts))
    ordinary = FACTS.ordinary.tolist()
    total = sum(counts[id] for id in ordinary)
    if not total:
        assert facts is FACTS
        return
    found = dict.fromkeys(ordinary, Fraction(0))
    for id, weight, alias in zip(ordinary, facts.weights.tolist(), facts.aliases.tolist(), strict=True):
        found[id] += Fraction(weight, len(ordinary) << 32)
        found[alias] += Fraction((1 << 32) - weight, len(ordinary) << 32)
    assert sum(found.values()) == 1
    for id, probability in found.items():
        assert abs(probability - Fraction(counts[id], total)) <= Fraction(1, 1 << 32)


def test_random_ids_are_drawn_in_proportion() -> None:
    """Within four standard deviations of the counts, chi-square; the kernel's are the definition's."""
    facts = with_frequencies(FACTS, np.array([999, 0, 5, 10, 999, 20, 40, 0, 80, 160, 1, 300]))
    num = 4000
    ids = np.full(num * 20, 3, np.uint16)
    offsets, names = np.arange(num + 1) * 20, np.arange(num, dtype=np.uint64)
    settings = MaskSettings(rate=1, mask_share=0, random_share=1, random="frequency")
    masks = draw_masks(ids, offsets, ids.astype(np.uint8), names, 5, settings, facts)
    counts = np.bincount(masks.replacements, minlength=12)
    expected = np.array([0, 0, 5, 10, 0, 20, 40, 0, 80, 160, 1, 300]) / 616 * num * 20
    assert counts[expected == 0].sum() == 0
    wanted = expected[expected > 0]
    chi_square = ((counts[expected > 0] - wanted) ** 2 / wanted).sum()
    assert abs(chi_square - 7) / np.sqrt(14) < 4
    plain = draw_masks_plain(ids[:400], offsets[:21], ids[:400].astype(np.uint8), names[:20], 5, settings, facts)
    assert plain.replacements.tolist() == masks.replacements[:400].tolist()
