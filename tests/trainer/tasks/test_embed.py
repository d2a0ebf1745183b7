"""Vectors of texts, words and tokens: those of transformers' hidden states, in the file's order, in bounded memory."""

import json
from collections.abc import Iterator
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
from trainer.tasks import embed
from trainer.tasks.embed import Embedder, embed_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.rows.retrieval import RetrievalTask
from trainer.tasks.rows.similarity import SimilarityTask
from trainer.tasks.saving import RECORD, task_json
from trainer.tasks.vector_settings import EmbedSettings

TEXTS = ("good film", "the plot was very long , and the actor was bad .", "a", "the scene", "short")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Steps this small are slower with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module: ModuleType = pytest.importorskip("transformers")
    return module


def embedded(folder: Path, file: FileSettings, output: Path, **settings: Any) -> Any:
    """The table that is written."""
    embedder = Embedder.of(folder, EmbedSettings(**settings), torch.device("cpu"))
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
    """Fails where layers are counted otherwise, a text loses its special tokens, or windows mix rows."""
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
    """Fails where pieces of two words are mixed, a word is told by its piece, or places are not those of the text."""
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
    """Fails where its pooling, its length or the encoder of passages is forgotten."""
    write_model(tmp_path / "model")
    for name, task in (("max", SimilarityTask(pooling="max")), ("two", RetrievalTask(shared=False, similarity="dot"))):
        exported_model(task, tmp_path / "model", tmp_path / name)
        (tmp_path / name / "tokenizer.json").write_bytes((tmp_path / "model" / "tokenizer.json").read_bytes())
        record = {"task": task_json(task), "max_length": 6}
        (tmp_path / name / RECORD).write_text(json.dumps(record), encoding="utf-8")
    file = write_json_rows(tmp_path / "t.jsonl", [{"text": text} for text in TEXTS])
    asked = embedded(tmp_path / "max", file, tmp_path / "asked.parquet", pooling="max", max_length=6)
    kept = embedded(tmp_path / "max", file, tmp_path / "kept.parquet")
    assert kept.equals(asked) and kept.schema.metadata == asked.schema.metadata
    assert not kept.equals(embedded(tmp_path / "max", file, tmp_path / "mean.parquet", pooling="mean"))
    first = embedded(tmp_path / "two", file, tmp_path / "first.parquet")
    second = embedded(tmp_path / "two", file, tmp_path / "second.parquet", side="second")
    assert np.abs(vectors_of(first) - vectors_of(second)).max() > 0.05
    assert json.loads(second.schema.metadata[b"cloze"])["similarity"] == "dot"


def test_documents_without_text_have_a_vector_too(tmp_path: Path) -> None:
    """Fails where a collection loses a document, or a text of no token ends in an error."""
    model = write_model(tmp_path / "model")
    (tmp_path / "c.xml").write_text(
        "<doc><docno>1</docno><text>good film</text></doc><doc><docno>2</docno><text></text></doc>", encoding="utf-8"
    )
    file = FileSettings(path=str(tmp_path / "c.xml"), format="documents")
    table = embedded(model, file, tmp_path / "v.parquet", precision="float16")
    assert table.column("id").to_pylist() == ["1", "2"] and np.isfinite(vectors_of(table)).all()
    assert len(embedded(model, file, tmp_path / "w.parquet", by="word")) == 2


def test_what_cannot_be_embedded_is_told(tmp_path: Path) -> None:
    """Fails where a layer that there is not ends in a traceback, or a file stays after a fault."""
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
