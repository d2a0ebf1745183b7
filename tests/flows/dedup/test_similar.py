"""`cloze dedup --similar`: near-duplicates of a text in a corpus."""

import json
from pathlib import Path

import pytest
from small_recipe import Run, nearly, prose

from corpora.errors import InputError
from corpora.schema import compute_keyed_id
from corpora.text.shingles import hash_text_shingles
from flows.command.cli import run_command_line
from flows.dedup.inputs import find_corpus_inputs, read_chunks
from flows.dedup.similar import SimilarDocument, find_similar


def test_documents_are_found_with_their_exact_similarity(finished: Run) -> None:
    """Fails if a removed document is named, one is missed, or a similarity is estimated."""

    def similar(text: str) -> list[SimilarDocument]:
        return find_similar(finished.place.address, text, 0.5)

    [exact] = similar(prose(7))
    assert (exact.is_exact, exact.similarity, exact.missing, exact.document.text) == (True, 1.0, 0.0, prose(7))
    edited = f"{prose(7)} And the rest of it is another story, which nobody has written."
    [near] = similar(edited)
    one, other = hash_text_shingles(edited), hash_text_shingles(prose(7))
    assert near.document.id == exact.document.id and not near.is_exact
    assert near.similarity == pytest.approx(len(one & other) / len(one | other))
    assert near.missing == pytest.approx(len(one - other) / len(one))
    [survivor] = similar(nearly(prose(100, 40)))
    assert survivor.document.id == compute_keyed_id("pages", "100")
    assert similar(prose(7_777)) == similar("") == []


def test_the_command_shows_them(finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if the option writes files, its threshold is another, or what is not one corpus is taken."""
    asked = ["dedup", finished.place.address, "--similar", prose(7)]
    assert run_command_line([*asked, "--json"], tmp_path) == 0
    [found] = json.loads(capsys.readouterr().out)["found"]
    assert found["is_exact"] and found["source"] == "pages"
    assert run_command_line([*asked[:3], "nothing of the kind"], tmp_path) == 0
    assert capsys.readouterr().out == "No document is as similar as 0.8.\n" and not any(tmp_path.iterdir())
    for wrong in (["dedup", "raw", *asked[1:]], ["dedup", "raw"]):
        with pytest.raises(InputError, match=r"asks one corpus|what to write"):
            run_command_line(wrong, tmp_path)


def test_a_corpus_is_read_as_another_corpus(finished: Run) -> None:
    """What `cloze dedup --against STORE` reads: the live documents, and no other."""
    pieces = find_corpus_inputs(finished.place.address, "").pieces
    texts = [text for piece in pieces for chunk in read_chunks(piece) for text in chunk.texts.to_pylist()]
    assert texts == [document.text for document in finished.corpus.iter_documents()]
