"""Tombstones: what was forgotten is known again by id or text, and the list itself names nobody."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.schema import compute_keyed_id
from corpora.store.places.place import Place
from corpora.tombstones import Tombstones, hash_text, read_tombstones, write_tombstones

ALICE = (compute_keyed_id("wikipedia", "Alice"), hash_text(b"Alice lives here."))
BOB = (compute_keyed_id("wikipedia", "Bob"), hash_text(b"Bob lives there."))
OTHER = (compute_keyed_id("wikipedia", "Carol"), hash_text(b"Carol lives elsewhere."))

pairs = st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16)), max_size=5)


def test_a_forgotten_document_is_known_by_either_of_its_names() -> None:
    tombstones = Tombstones().with_documents([ALICE])
    assert tombstones.is_forgotten(*ALICE)
    assert tombstones.is_forgotten(ALICE[0], OTHER[1])  # the same page with another text
    assert tombstones.is_forgotten(OTHER[0], ALICE[1])  # the same text under another id
    assert not tombstones.is_forgotten(*OTHER)
    assert not tombstones.is_forgotten(ALICE[1], ALICE[0])  # an id is no text
    assert not Tombstones().is_forgotten(*ALICE)


@given(pairs, pairs)
def test_a_list_only_grows(first: list[tuple[bytes, bytes]], second: list[tuple[bytes, bytes]]) -> None:
    tombstones = Tombstones().with_documents(iter(first)).with_documents(iter(second))
    assert all(tombstones.is_forgotten(*pair) for pair in first + second)
    assert len(tombstones.ids) == len({id for id, _ in first + second})
    assert tombstones.with_documents(first).fingerprint == tombstones.fingerprint


def test_the_fingerprint_follows_the_list_and_not_the_order() -> None:
    one = Tombstones().with_documents([ALICE])
    assert one.with_documents([BOB]).fingerprint != one.fingerprint
    both = one.with_documents([BOB, OTHER])
    assert one.with_documents([OTHER]).with_documents([BOB]).fingerprint == both.fingerprint
    assert Tombstones().with_documents([]) == Tombstones()  # nothing forgotten asks for no new build
    assert Tombstones(key=one.key, ids=one.texts, texts=one.ids).fingerprint != one.fingerprint


def test_each_list_has_a_key_of_its_own_and_names_nobody(tmp_path: Path) -> None:
    lists = [Tombstones().with_documents([ALICE]) for _ in range(2)]
    assert lists[0].ids.isdisjoint(lists[1].ids) and lists[0].texts.isdisjoint(lists[1].texts)
    place = Place(str(tmp_path))
    write_tombstones(place, "general", lists[0])
    written = place.read("corpora/general/tombstones.json").decode()
    assert lists[0].key in written
    assert not any(name.hex() in written for name in ALICE) and "Alice" not in written


def test_a_list_is_kept_for_each_corpus(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    assert read_tombstones(place, "general") == Tombstones()
    tombstones = Tombstones().with_documents([ALICE, BOB])
    write_tombstones(place, "general", tombstones)
    read = read_tombstones(place, "general")
    assert read == tombstones and read.fingerprint == tombstones.fingerprint
    assert read.is_forgotten(*BOB) and not read.is_forgotten(*OTHER)
    assert read_tombstones(place, "medical") == Tombstones()
    before = place.read("corpora/general/tombstones.json")
    write_tombstones(place, "general", read)
    assert place.read("corpora/general/tombstones.json") == before


def test_golden_hashes() -> None:
    tombstones = Tombstones(key="00" * 16).with_documents([(b"i" * 16, hash_text(b"text"))])
    assert hash_text(b"text").hex() == "982d9e3eb996f559e633f4d194def376"
    assert sorted(tombstones.ids) == ["b4d3bd44cc303b7dfa4062d512a01220"]
    assert tombstones.is_forgotten(b"i" * 16, b"")


def test_what_is_forgotten_later_holds_from_then_on(tmp_path: Path) -> None:
    """Fails if a later entry changes what an earlier generation honours, or is lost on the way to the store."""
    place, early = Place(str(tmp_path)), Tombstones().with_documents([ALICE])
    both = early.with_documents([ALICE, BOB], generation=3)
    assert both.as_of(2).fingerprint == both.as_of(1).fingerprint == early.as_of(1).fingerprint
    assert both.as_of(2).is_forgotten(*ALICE) and not both.as_of(2).is_forgotten(*BOB)
    assert both.as_of(3).is_forgotten(*BOB) and both.as_of(3).is_forgotten(*ALICE)
    write_tombstones(place, "general", both)
    assert read_tombstones(place, "general") == both


@given(st.data())
def test_no_bit_of_a_list_flips_unseen(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Fails if a document comes back because a bit of its hash has changed."""
    place, path = Place(str(tmp_path_factory.mktemp("lists"))), "corpora/general/tombstones.json"
    write_tombstones(place, "general", Tombstones().with_documents([ALICE, BOB]))
    changed = bytearray(place.read(path))
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    place.write(path, bytes(changed))
    with pytest.raises(InputError, match=r"tombstones\.json in .* is damaged: .*bring it back from a copy"):
        read_tombstones(place, "general")
