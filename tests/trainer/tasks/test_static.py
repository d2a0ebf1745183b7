"""Static vectors: they are what the encoder makes of each piece, and open in model2vec and sentence-transformers."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from small_models import write_model
from small_tasks import write_json_rows
from tokenizers import Tokenizer

from corpora.errors import InputError
from trainer.tasks.vectors.static import export_static

DIMENSIONS = 8
TEXTS = ("good film", "the plot was very long , and the actor was ünd bad . " * 60, "ü", "", "short [MASK] scene")


def static(folder: Path, output: Path, **asked: Any) -> dict[str, Any]:
    return export_static(folder, output, asked.pop("dimensions", DIMENSIONS), torch.device("cpu"), **asked)


def defined(folder: Path, transformers: ModuleType, first: int) -> tuple[Any, list[int]]:
    """The vectors of pieces as the page defines them, from transformers' states and a singular value decomposition."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    others = {*tokenizer.all_special_ids} - {tokenizer.pad_token_id, tokenizer.unk_token_id}
    pieces = [piece for piece in range(len(tokenizer)) if piece not in others]
    with torch.no_grad():
        ids = torch.tensor([[tokenizer.cls_token_id, piece, tokenizer.sep_token_id] for piece in pieces])
        places = torch.arange(3) + first  # as RoBERTa counts them, but for its padding
        vectors = model(ids, position_ids=places[None]).last_hidden_state.mean(1).numpy().astype(np.float64)
    shares = 1 / (2 + np.arange(len(pieces)))
    centered = vectors - vectors.mean(0)
    reduced = centered @ np.linalg.svd(centered)[2][:DIMENSIONS].T
    return reduced * (1e-4 / (1e-4 + shares / shares.sum()))[:, None], pieces


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pieces_have_the_vectors_of_the_encoder(tmp_path: Path, transformers: ModuleType, family: str) -> None:
    """Fails where a piece is read without its special tokens, components are lost, or weights are of other ranks."""
    folder = write_model(tmp_path / "model", family)
    wanted, pieces = defined(folder, transformers, 2 if family == "roberta" else 0)
    assert static(folder, tmp_path / "static") == {"pieces": len(pieces), "width": DIMENSIONS}
    vectors = load_file(tmp_path / "static" / "model.safetensors")["embeddings"]
    known = [place for place, piece in enumerate(pieces) if vectors[piece].any()]
    assert len(known) == len(pieces) - 2, "padding and the unknown piece have none"
    rows = vectors[pieces][known]
    assert np.abs(rows @ rows.T - wanted[known] @ wanted[known].T).max() < 1e-4 * np.square(wanted).sum(1).max()


def test_a_folder_opens_with_the_vectors_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where texts are cut, unknown words or special tokens count, or either library reads other vectors."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    opened = pytest.importorskip("model2vec").StaticModel
    static(write_model(tmp_path / "model"), tmp_path / "static")
    tokenizer = Tokenizer.from_file(str(tmp_path / "static" / "tokenizer.json"))
    vectors = load_file(tmp_path / "static" / "model.safetensors")["embeddings"]
    sums = [vectors[tokenizer.encode(text, add_special_tokens=False).ids].sum(0) for text in TEXTS]
    wanted = np.array([each / max(np.linalg.norm(each), 1e-30) for each in sums])
    assert np.abs(opened.from_pretrained(tmp_path / "static").encode([*TEXTS]) - wanted).max() < 1e-6
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(tmp_path / "static"), device="cpu")
    assert np.abs(model.encode([*TEXTS]) - wanted).max() < 1e-6


def test_frequencies_are_counted_in_texts(tmp_path: Path) -> None:
    """Fails where counts are of other pieces, or a piece that no text has weighs nothing."""
    folder = write_model(tmp_path / "model")
    texts = write_json_rows(tmp_path / "t.jsonl", [{"text": "good good good film"}] * 1_000)
    static(folder, tmp_path / "ranks", dimensions=1_000)
    assert static(folder, tmp_path / "counts", dimensions=1_000, texts=texts)["width"] == 32
    ids = [Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(word) for word in ("good", "film", "bad")]
    both = [load_file(tmp_path / name / "model.safetensors")["embeddings"][ids] for name in ("counts", "ranks")]
    counts, ranks = np.array([3_000.5, 1_000.5, 0.5]), 1 / np.arange(2.0, 2_000)
    pieces = static(folder, tmp_path / "again")["pieces"]
    total, all_ranks = 4_000 + pieces / 2, ranks[:pieces].sum()
    rank = [2 + id_ - 3 for id_ in ids]  # [CLS], [SEP] and [MASK] have none
    wanted = 1e-3 / (1e-3 + counts / total) * (1e-4 + 1 / np.array(rank) / all_ranks) / 1e-4
    assert np.linalg.norm(both[0], axis=1) / np.linalg.norm(both[1], axis=1) == pytest.approx(wanted, rel=1e-4)


def test_nothing_is_replaced(tmp_path: Path) -> None:
    """Fails where a folder that holds something is written over, or one stays after an error."""
    folder = write_model(tmp_path / "model")
    with pytest.raises(InputError, match="is not empty"):
        static(folder, folder)
    with pytest.raises(InputError, match="dimensions"):
        static(folder, tmp_path / "static", dimensions=0)
    with pytest.raises(InputError, match=r"t\.tsv"):
        static(folder, tmp_path / "static", texts=write_json_rows(tmp_path / "t.tsv", []))
    assert not (tmp_path / "static").exists()
