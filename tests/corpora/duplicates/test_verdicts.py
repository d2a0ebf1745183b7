"""Verdicts: the columns say what the rules say that are read row by row, and no scratch file is left."""

import tempfile
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_store import Made, MadeInput, build_inputs, cut_points, plain_verdicts
from tiers import examples

from corpora.duplicates.build import plan_verdicts
from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.survivors import PREFERENCES, DuplicateSettings
from corpora.store import scratch
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.store.tables import read_table
from corpora.tombstones import Tombstones, hash_text

WORDS = (
    "the mill by the river is older than the bridge and both have been mended often by the same few families".split()
)
NEARLY = [" ".join([*WORDS[:at], "new", *WORDS[at + 1 :]]) for at in (0, 18)]
TEXTS = [" ".join(WORDS), " ".join(WORDS).upper(), *NEARLY, "another text of some more words", "a b", "...", "???", ""]
MADE = st.builds(
    Made,
    st.integers(0, 3),
    st.sampled_from([*TEXTS, None]),
    st.booleans(),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from(["x", "y"]),
    st.integers(0, 2),
)
CHOICES = st.builds(
    DuplicateSettings,
    threshold=st.sampled_from([0.3, 0.8]),
    max_bucket_comparisons=st.sampled_from([1, 1000]),
    prefer=st.sampled_from(PREFERENCES),
    enabled=st.sampled_from([True, True, True, False]),
)


@given(
    st.lists(MADE, max_size=14),
    st.lists(st.integers(0, 14), min_size=2, max_size=2),
    CHOICES,
    st.lists(st.tuples(st.integers(0, 13), st.booleans()), max_size=2),
    st.sampled_from([1, 5, 1 << 16]),
)
@examples(30)
def test_columns_say_what_the_rules_say(
    rows: list[Made],
    ends: list[int],
    chosen: DuplicateSettings,
    forgotten: list[tuple[int, bool]],
    block: int,
) -> None:
    """Law: whatever the revisions, drops, equal records, forgets and parts, each verdict is the rule's, row by row."""
    pieces = cut_points(rows, ends)
    inputs = [MadeInput(piece, generation=1 + at // 2, priority=at) for at, piece in enumerate(pieces)]
    gone = [(rows[at], by_id) for at, by_id in forgotten if at < len(rows)]
    pairs = [
        (row.key if by_id else b"none", b"none" if by_id else hash_text(str(row.text).encode())) for row, by_id in gone
    ]
    tombstones, split = Tombstones().with_documents(pairs), SplitSettings(share=0.4)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "BLOCK_ROWS", block)
        place = Place(folder)
        built = build_inputs(place, inputs, chosen)
        manifest = build_stage(place, plan_verdicts("made", built, chosen, split, tombstones))
        found = [row for batch in read_table(place, manifest, "verdicts") for row in batch.to_pylist()]
    expected = plain_verdicts(inputs, chosen, split, tombstones)
    assert found == expected
    [account] = manifest.ledger.accounts
    assert account.total == len(expected)
    assert account.outcomes.get("kept", 0) == sum(row["reason"] is None for row in expected)


def verdicts_of(folder: Path, rows: Sequence[Made]) -> list[str | None]:
    """The reason of each of some documents of one generation."""
    place, chosen = Place(str(folder)), DuplicateSettings()
    built = build_inputs(place, [MadeInput(rows, 1)], chosen)
    manifest = build_stage(place, plan_verdicts("made", built, chosen, SplitSettings(), Tombstones()))
    return [reason for batch in read_table(place, manifest, "verdicts") for reason in batch["reason"].to_pylist()]


def test_documents_without_words_are_copies_if_their_texts_are_equal(tmp_path: Path) -> None:
    """Law: equal words are an exact copy, whatever the case and marks; without words the bytes decide."""
    texts = ["A mill!", "a MILL", "...", "?!", "...", "", ""]
    reasons = verdicts_of(tmp_path, [Made(number, text) for number, text in enumerate(texts)])
    copies = [sorted(reasons[at] or "" for at in pair) for pair in ((0, 1), (2, 4), (5, 6))]
    assert copies == [["", "exact duplicate"]] * 3
    assert reasons[3] is None


def test_a_record_of_equal_bytes_is_held_out_by_its_own_id_or_with_its_group(tmp_path: Path) -> None:
    """Fails if a numbered record takes the side of the first one, or leaves its group's side."""
    place, chosen = Place(str(tmp_path)), DuplicateSettings(enabled=False)
    rows = [Made(1, "a text", keyed=False)] * 60 + [Made(2, "another", keyed=False, group="g")] * 60
    built = build_inputs(place, [MadeInput(rows, 1, part_rows=50)], chosen)
    split = SplitSettings(share=0.5)
    manifest = build_stage(place, plan_verdicts("made", built, chosen, split, Tombstones()))
    found = [row for batch in read_table(place, manifest, "verdicts") for row in batch.to_pylist()]
    assert len({row["id"] for row in found}) == 120
    assert {row["held_out"] for row in found[:60]} == {True, False}
    assert len({row["held_out"] for row in found[60:]}) == 1


def test_scratch_columns_come_back_as_they_went_in(tmp_path: Path) -> None:
    """Fails if a block's columns are mixed up, a range is cut wrongly, or a file is left behind."""
    rng = np.random.default_rng(5)
    pairs, flags = rng.integers(0, 1 << 60, (1000, 2), np.uint64), rng.random(1000) < 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "BLOCK_ROWS", 64)
        with scratch.open_scratch_table(str(tmp_path), {"pair": np.dtype((np.uint64, 2)), "flag": np.bool_}) as table:
            at = 0
            while at < 1000:
                stop = min(1000, at + int(rng.integers(0, 90)))
                table.append({"flag": flags[at:stop], "pair": pairs[at:stop]})
                at = stop
            assert not [*tmp_path.iterdir()]
            for first, stop in (0, 1000), (0, 0), (63, 65), (500, 777), (999, 1000):
                assert np.array_equal(table.read_column("pair", first, stop), pairs[first:stop])
                assert np.array_equal(table.read_column("flag", first, stop), flags[first:stop])
            rows = np.flatnonzero(rng.random(1000) < 0.03)
            assert np.array_equal(table.read_values("pair", rows), pairs[rows])
            assert len(table.read_values("flag", rows[:0])) == 0
    assert not [*tmp_path.iterdir()]


def test_memory_is_some_bytes_a_document(tmp_path: Path) -> None:
    """Law: what verdicts hold grows by less than 150 bytes a document: no Python object, no sketch, no text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "BLOCK_ROWS", 1 << 8)
        peaks = [_peak(tmp_path / str(number), number) for number in (1_000, 3_000, 5_000)]
    first, second = (after - before for before, after in pairwise(peaks))
    assert first < 150 * 2_000 and second < 150 * 2_000


def _peak(folder: Path, number: int) -> int:
    place, chosen = Place(str(folder)), DuplicateSettings()
    texts = [" ".join(f"w{(at - at % 10 // 9) * 7919 + word * word}" for word in range(12)) for at in range(number)]
    built = build_inputs(place, [MadeInput([Made(*row) for row in enumerate(texts)], 1, part_rows=1_000)], chosen)
    stage = plan_verdicts("made", built, chosen, SplitSettings(), Tombstones())
    tracemalloc.start()
    manifest = build_stage(place, stage)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert manifest.ledger.accounts[0].outcomes["removed: exact duplicate"] == number // 10
    return peak
