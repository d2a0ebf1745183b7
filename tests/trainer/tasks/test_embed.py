"""Vectors of texts, words and tokens: those of transformers' hidden states, in the file's order, in bounded memory."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from small_models import write_model
from small_tasks import exported_model, write_json_rows, write_rows

from corpora.errors import InputError
from trainer.complete_folders import hold_output
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask
from trainer.tasks.vectors import embed
from trainer.tasks.vectors import embed as parts
from trainer.tasks.vectors.embed import Embedder, embed_file
from trainer.tasks.vectors.settings import EmbedSettings

TEXTS = ("good film", "the plot was very long , and the actor was bad .", "a", "the scene", "short")


def embedded(folder: Path, file: FileSettings, output: Path, **settings: Any) -> Any:
    """The table that is written."""
    embedder = Embedder.from_folder(folder, EmbedSettings(**settings), torch.device("cpu"))
    done = embed_file(embedder, file, output, print)
    table = pq.read_table(output)
    assert done["rows"] == len(table)
    return table


def vectors_of(table: Any) -> Any:
    column = table.column("vector").combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_vectors_are_those_of_transformers(
    tmp_path: Path, transformers: ModuleType, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Fails if layers are counted otherwise, a text loses its special tokens, or windows mix rows."""
    monkeypatch.setattr(embed, "WINDOW_TOKENS", 20)
    monkeypatch.setattr(embed, "BATCH_TOKENS", 10)
    model = write_model(tmp_path / "model", family)
    file = write_json_rows(
        tmp_path / "t.jsonl", [{"id": f"n{number}", "text": text} for number, text in enumerate(TEXTS)]
    )
    reference = transformers.AutoModel.from_pretrained(model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    states = []
    for text in TEXTS:
        with torch.no_grad():
            inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=40)
            states.append([state[0] for state in reference(**inputs, output_hidden_states=True).hidden_states])
    means = torch.stack([each[-1].mean(0) for each in states]).numpy()
    table = embedded(model, file, tmp_path / "mean.parquet")
    assert table.column("id").to_pylist() == [f"n{number}" for number in range(len(TEXTS))]
    assert np.abs(vectors_of(table) - means).max() < 1e-5
    several = embedded(model, file, tmp_path / "several.parquet", layers=(-1, 0, 1), pooling="max")
    wanted = torch.stack([torch.cat([each[-1], each[0], each[1]], -1).max(0).values for each in states]).numpy()
    assert np.abs(vectors_of(several) - wanted).max() < 1e-5
    summed = embedded(model, file, tmp_path / "sum.parquet", layers=(1, 2), combine="sum", pooling="cls")
    assert np.abs(vectors_of(summed) - torch.stack([(each[1] + each[2])[0] for each in states]).numpy()).max() < 1e-5
    tokens = embedded(model, file, tmp_path / "tokens.parquet", by="token")
    assert np.abs(vectors_of(tokens) - torch.cat([each[-1][1:-1] for each in states]).numpy()).max() < 1e-5


def test_words_have_the_mean_of_their_pieces(tmp_path: Path) -> None:
    """Fails if pieces of two words are mixed, a word is told by its piece, or places are not those of the text."""
    model = write_model(tmp_path / "model")
    file = write_rows(tmp_path / "t.tsv", [("good filmx, bad",), ("a",)], ("text",))
    words = embedded(model, file, tmp_path / "w.parquet", by="word")
    assert words.column("text").to_pylist() == ["good", "filmx", ",", "bad", "a"]
    assert words.column("place").to_pylist() == [0, 1, 2, 3, 0]
    assert words.column("id").to_pylist() == ["2", "2", "2", "2", "3"]
    tokens = embedded(model, file, tmp_path / "t.parquet", by="token")
    said, rows = tokens.column("text").to_pylist(), vectors_of(tokens)
    assert said == ["good", "film", "x", ",", "bad", "a"]
    assert np.abs(vectors_of(words)[1] - rows[1:3].mean(0)).max() < 1e-6


def test_what_a_fine_tuned_folder_says_of_vectors_is_kept_to(tmp_path: Path) -> None:
    """Fails if its pooling, its length or the encoder of passages is forgotten."""
    write_model(tmp_path / "model")
    for name, task in (("max", SimilarityTask(pooling="max")), ("two", RetrievalTask(shared=False, similarity="dot"))):
        exported_model(task, tmp_path / "model", tmp_path / name, {"max_length": 6})
    file = write_json_rows(tmp_path / "t.jsonl", [{"text": text} for text in TEXTS])
    asked = embedded(tmp_path / "max", file, tmp_path / "asked.parquet", pooling="max", max_length=6)
    kept = embedded(tmp_path / "max", file, tmp_path / "kept.parquet")
    assert kept.equals(asked) and kept.schema.metadata == asked.schema.metadata
    assert not kept.equals(embedded(tmp_path / "max", file, tmp_path / "mean.parquet", pooling="mean"))
    first = embedded(tmp_path / "two", file, tmp_path / "first.parquet")
    second = embedded(tmp_path / "two", file, tmp_path / "second.parquet", side="second")
    assert np.abs(vectors_of(first) - vectors_of(second)).max() > 0.05
    assert json.loads(second.schema.metadata[b"cloze"])["similarity"] == "dot"


def test_what_cannot_be_embedded_is_told(tmp_path: Path) -> None:
    """Fails if a layer that there is not ends in a traceback, or a file stays after a fault."""
    model = write_model(tmp_path / "model")
    file = write_json_rows(tmp_path / "t.jsonl", [{"text": "good"}, {"text": ""}])
    with pytest.raises(InputError, match=r"layers names 3, and the model .* has 2"):
        embedded(model, file, tmp_path / "v.parquet", layers=(-1, 3))
    with pytest.raises(InputError, match=r"max_length = 41, and the model .* reads 40"):
        embedded(model, file, tmp_path / "v.parquet", max_length=41)
    with pytest.raises(InputError, match=r"1 of 2 rows cannot be used: 1 empty text"):
        embedded(model, file, tmp_path / "v.parquet")
    with pytest.raises(InputError, match="layers: name one or more, each once"):
        EmbedSettings(layers=(1, 1))
    assert not list(tmp_path.glob("*v.parquet*"))


# A run that is ended.


class Ended(BaseException):
    """The process is no more."""


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each window is a part."""
    monkeypatch.setattr(embed, "WINDOW_TOKENS", 10)
    monkeypatch.setattr(embed, "SAVE_SECONDS", -1.0)


def ended_after(monkeypatch: pytest.MonkeyPatch, windows: int, does: Callable[[], Any], error: BaseException) -> int:
    """Call, and end it where it begins a window after some; how many it made."""
    made = 0

    def vectors(self: Embedder, encodings: Any) -> Any:
        nonlocal made
        if made == windows:
            raise error
        made += 1
        return own(self, encodings)

    own = Embedder.compute_vectors
    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "compute_vectors", vectors)
        try:
            does()
        except type(error):
            return made
    return made


@pytest.mark.parametrize("by", ["text", "word"])
def test_a_run_that_was_ended_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_windows: None, by: str
) -> None:
    """Ended three times: fails where a window is made twice, left out, or is another row group."""
    model = write_model(tmp_path / "model")
    file = write_json_rows(tmp_path / "t.jsonl", [{"text": text} for text in TEXTS * 4])
    output = tmp_path / "v.parquet"
    total = ended_after(monkeypatch, -1, lambda: embedded(model, file, tmp_path / "whole.parquet", by=by), Ended())
    made = [
        ended_after(monkeypatch, windows, lambda: embedded(model, file, output, by=by), Ended())
        for windows in (2, 0, 3)
    ]
    assert not output.exists() and (tmp_path / ".v.parquet.tmp" / "part-4.parquet").is_file()
    made.append(ended_after(monkeypatch, -1, lambda: embedded(model, file, output, by=by), Ended()))
    assert made[:3] == [2, 0, 3] and sum(made) == total > 6
    assert output.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_only_what_is_whole_and_the_same_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_windows: None
) -> None:
    """A damaged part is made again with those after it; another file, and other settings, begin anew."""
    model = write_model(tmp_path / "model")
    rows = [{"text": text} for text in TEXTS * 4]
    file, output = write_json_rows(tmp_path / "t.jsonl", rows), tmp_path / "v.parquet"

    def ended(windows: int, **settings: Any) -> int:
        return ended_after(monkeypatch, windows, lambda: embedded(model, file, output, **settings), Ended())

    total = ended(-1)
    whole = output.read_bytes()
    assert ended(4) == 4
    part = tmp_path / ".v.parquet.tmp" / "part-1.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 4] ^= 1  # in a page, before the metadata
    part.write_bytes(data)
    assert ended(-1) == total - 1 and output.read_bytes() == whole
    assert ended(4, pooling="cls") == 4
    assert ended(-1, pooling="max") == total
    assert ended(4) == 4
    write_json_rows(tmp_path / "t.jsonl", [{"text": "good"}, *rows[1:]])
    assert ended(-1) >= total - 1 and output.read_bytes() != whole


def test_a_full_disk_keeps_what_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_windows: None) -> None:
    """Fails if hours of work go with the error, or a run without a part leaves a folder."""
    model = write_model(tmp_path / "model")
    file = write_json_rows(tmp_path / "t.jsonl", [{"text": text} for text in TEXTS * 4])
    output = tmp_path / "v.parquet"
    full = InputError("Cannot write v.parquet: the disk is full")
    assert ended_after(monkeypatch, 0, lambda: embedded(model, file, output), full) == 0
    assert not (tmp_path / ".v.parquet.tmp").exists()
    assert ended_after(monkeypatch, 3, lambda: embedded(model, file, output), full) == 3

    def no_room(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(parts.pq.ParquetWriter, "write_table", no_room)
        with pytest.raises(InputError, match=r"Cannot write .*v\.parquet: the disk is full: free some space"):
            embedded(model, file, output)
    assert len([*(tmp_path / ".v.parquet.tmp").glob("part-*.parquet")]) >= 3
    total = ended_after(monkeypatch, -1, lambda: embedded(model, file, tmp_path / "whole.parquet"), full)
    assert ended_after(monkeypatch, -1, lambda: embedded(model, file, output), full) == total - 3
    assert output.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    file = write_json_rows(tmp_path / "t.jsonl", [{"text": "good"}])
    with hold_output(tmp_path / "v.parquet", "writing"):
        with pytest.raises(InputError, match=r"Another process is writing .*v\.parquet"):
            embedded(model, file, tmp_path / "v.parquet")
    assert len(embedded(model, file, tmp_path / "v.parquet")) == 1
