"""Rows from JSON lines: those of the plain definition by the Hugging Face tokenizer, whatever the files look like."""

import bz2
import gzip
import json
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.errors import InputError
from shards import rows as rows_module
from shards.rows import Rows, RowSettings, RowsWritten, frame_of, read_rows, rows_plainly, write_rows
from shards.rows_kernels import NUM_STATES, Frame, end_row, lay_documents
from tokenizers_train.build import train_vocabulary
from tokenizers_train.counts import count_by
from tokenizers_train.encode import text_tokenizer
from tokenizers_train.settings import VocabularySettings
from tokenizers_train.vocabulary import Vocabulary

TEXTS = [
    "The keeper of the lighthouse carried seven stones.",
    "",
    "Naïve café, “quoted” and 😀 in the winter of 1887; the keeper measured them twice.",
    "A text that says [MASK] and </s> is text.\nIt has\ttwo lines.",
    *(f"Number {number} of the boats, {number * 37} stones, came in with the tide." for number in range(60)),
]
SETTINGS = {
    "wordpiece": VocabularySettings(size=300),
    "byte-bpe": VocabularySettings(algorithm="byte-bpe", size=400),
}


@cache
def vocabulary_of(algorithm: str) -> Vocabulary:
    """A small vocabulary learnt from the texts."""
    chosen = SETTINGS[algorithm]
    return train_vocabulary(count_by(chosen.word_rule, pa.array(TEXTS, pa.large_string())), chosen)


def write_lines(path: Path, texts: Sequence[str], field: str = "text") -> Path:
    lines = "".join(json.dumps({"id": 7, field: text}, ensure_ascii=False) + "\n" for text in texts).encode()
    packers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(lines))
    return path


def expected(vocabulary: Vocabulary, texts: Sequence[str], chosen: RowSettings) -> tuple[list[list[int]], int, int]:
    """The rows by the tokenizer and the plain definition."""
    tokenizer = text_tokenizer(vocabulary)
    documents = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return rows_plainly(documents, frame_of(vocabulary, chosen))


@pytest.mark.parametrize("algorithm", SETTINGS)
@pytest.mark.parametrize("group", [None, 1, 7])
@pytest.mark.parametrize("remainder", ["drop", "pad"])
def test_rows_are_those_of_the_tokenizer(tmp_path: Path, algorithm: str, group: int | None, remainder: str) -> None:
    vocabulary = vocabulary_of(algorithm)
    chosen = RowSettings(length=16, group=group, remainder=remainder)
    paths = [write_lines(tmp_path / "a.jsonl", TEXTS[:20]), write_lines(tmp_path / "b.jsonl.gz", TEXTS[20:])]
    written = write_rows(paths, vocabulary, tmp_path / "out" / "rows.arrow", chosen)
    plain, left_over, padded = expected(vocabulary, TEXTS, chosen)
    rows = read_rows(tmp_path / "out" / "rows.arrow")
    assert rows.tolist() == plain and rows.dtype == np.uint16 and len(plain) > 20
    assert (written.num_documents, written.num_rows) == (len(TEXTS), len(plain))
    assert (written.left_over, written.padded) == (left_over, padded) and left_over + padded > 0
    assert written.num_ids == written.num_rows * 16 - written.padded + written.left_over
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rows.arrow"]


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_documents_are_framed_as_transformers_frames_them(tmp_path: Path, algorithm: str) -> None:
    """Fails where the special tokens are not those that the tokenizer itself adds."""
    vocabulary = vocabulary_of(algorithm)
    texts = [text for text in TEXTS if "[MASK]" not in text]
    write_rows([write_lines(tmp_path / "a.jsonl", texts)], vocabulary, tmp_path / "rows", RowSettings(length=8))
    ids = [number for encoding in vocabulary.tokenizer().encode_batch(texts) for number in encoding.ids]
    assert read_rows(tmp_path / "rows").ravel().tolist() == ids[: len(ids) // 8 * 8]
    special = [number for number in ids if number in set(vocabulary.special_ids.values())]
    assert len(special) == 2 * len(texts)


def test_the_bytes_are_the_same_however_lines_are_spread_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "BATCH_IDS", 64)
    vocabulary, chosen = vocabulary_of("wordpiece"), RowSettings(length=8, group=5)
    whole, second = tmp_path / "whole", tmp_path / "second"
    write_rows([write_lines(tmp_path / "a.jsonl", TEXTS)], vocabulary, whole, chosen)
    cut = [write_lines(tmp_path / f"{n}.jsonl.bz2", TEXTS[n::1][:1]) for n in range(len(TEXTS))]
    write_rows(cut, vocabulary, second, chosen)
    assert whole.read_bytes() == second.read_bytes()
    with pa.ipc.open_file(str(whole)) as file:
        assert file.num_record_batches > 5
        sizes = [file.get_batch(number).num_rows for number in range(file.num_record_batches)]
    assert {*sizes[:-1]} == {8}


documents_of_ids = st.lists(st.lists(st.integers(5, 60000), max_size=20), max_size=30)


@given(documents_of_ids, st.integers(3, 12), st.integers(0, 6), st.sampled_from([-1, 0]), st.integers(1, 7))
@settings(deadline=None, max_examples=200)
def test_the_kernel_equals_the_plain_twin(
    documents: list[list[int]], length: int, group: int, pad_id: int, step: int
) -> None:
    frame = Frame(cls_id=1, sep_id=2, pad_id=pad_id, length=length, group=group)
    state = np.zeros(NUM_STATES, np.int64)
    out = np.zeros(sum(len(ids) + 2 + length for ids in documents) + length, np.uint16)
    for first in range(0, len(documents), step):
        few = documents[first : first + step]
        offsets = np.cumsum([0, *map(len, few)], dtype=np.int64)
        ids = np.array([number for document in few for number in document], np.uint16)
        lay_documents(ids, offsets, frame, state, out)
    end_row(frame, state, out)
    place, _, left_over, padded = state.tolist()
    assert (out[:place].reshape(-1, length).tolist(), left_over, padded) == rows_plainly(documents, frame)


def test_no_documents_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(b"\n \n")
    for remainder in ("drop", "pad"):
        chosen = RowSettings(length=9, remainder=remainder)
        written = write_rows(
            [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], vocabulary_of("wordpiece"), tmp_path / "r", chosen
        )
        assert written == RowsWritten(num_documents=0, num_ids=0, num_rows=0, left_over=0, padded=0)
        assert read_rows(tmp_path / "r").shape == (0, 9)


def test_many_ids_are_written_in_bounded_memory(tmp_path: Path) -> None:
    """Fails where batches are not taken out: the room stays that of a batch and a block."""
    rows = Rows(vocabulary_of("wordpiece"), RowSettings(length=128))
    column, num_rows = pa.array(TEXTS * 200, pa.large_string()), 0
    for _ in range(5):
        rows.add(column)
        num_rows += sum(batch.num_rows for batch in rows.batches())
        room = len(rows._out)
    num_rows += sum(batch.num_rows for batch in rows.last_batches())
    assert rows.written.num_ids > 3 * room // 2
    assert num_rows == rows.written.num_rows == rows.written.num_ids // 128


def test_threads_write_side_by_side(tmp_path: Path) -> None:
    vocabulary, chosen = vocabulary_of("byte-bpe"), RowSettings(length=16)
    paths = [write_lines(tmp_path / f"{n}.jsonl", TEXTS[n:]) for n in range(4)]
    alone = [write_rows([path], vocabulary, path.with_suffix(".alone"), chosen) for path in paths]
    arguments = [([path], vocabulary, path.with_suffix(".beside"), chosen) for path in paths]
    threads = [threading.Thread(target=write_rows, args=given) for given in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(alone) == 4
    for path in paths:
        assert path.with_suffix(".alone").read_bytes() == path.with_suffix(".beside").read_bytes()


def test_a_fault_leaves_nothing_and_what_was_there_stays(tmp_path: Path) -> None:
    good = write_lines(tmp_path / "good.jsonl", TEXTS)
    target, vocabulary = tmp_path / "rows" / "rows.arrow", vocabulary_of("wordpiece")
    write_rows([good], vocabulary, target, RowSettings(length=8))
    before = target.read_bytes()
    (tmp_path / "bad.jsonl").write_text('{"text": "one"}\n{"txt": "two"}\n')
    with pytest.raises(InputError, match=r"bad\.jsonl, line 2: no field 'text'"):
        write_rows([good, tmp_path / "bad.jsonl"], vocabulary, target, RowSettings(length=8))
    assert target.read_bytes() == before and [*target.parent.iterdir()] == [target]
    with pytest.raises(InputError, match="one of the files they are made of"):
        write_rows([good], vocabulary, tmp_path / "rows" / ".." / "good.jsonl", RowSettings(length=8))
    assert len(good.read_bytes().splitlines()) == len(TEXTS)


def test_the_field_can_be_named(tmp_path: Path) -> None:
    vocabulary, path = vocabulary_of("wordpiece"), write_lines(tmp_path / "a.jsonl", TEXTS, field="body")
    written = write_rows([path], vocabulary, tmp_path / "rows", RowSettings(length=8, field="body"))
    assert written.num_documents == len(TEXTS)


@pytest.mark.parametrize(
    ("given_settings", "said"),
    [
        ({"length": 2}, "rows.length"),
        ({"group": 0}, "rows.group"),
        ({"remainder": "keep"}, "rows.remainder"),
        ({"field": ""}, "rows.field"),
    ],
)
def test_settings_that_cannot_be(given_settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        RowSettings(**given_settings)  # type: ignore[arg-type]


def test_what_is_no_file_of_rows_is_told(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"no rows")
    with pytest.raises(InputError, match="no file of rows"):
        read_rows(tmp_path / "rows")
    with pytest.raises(InputError, match="no file of rows"):
        read_rows(tmp_path / "nothing")
