"""`cloze similar`, and datasketch's sketches to and from ours: a corpus asked without being inserted again."""

import numpy as np
import pyarrow as pa
import pytest
from datasketch import LeanMinHash, MinHash, MinHashLSH
from small_recipe import Run, nearly, prose

from corpora.duplicates.exchange import from_minhash
from corpora.duplicates.signatures import SignatureSettings, signatures
from corpora.errors import InputError
from corpora.schema import keyed_id
from corpora.text.shingles import shingle_hashes
from flows.dedup.inputs import chunks, pieces_of_corpus
from flows.dedup.similar import CorpusIndex

SETTINGS = SignatureSettings()


@pytest.fixture(scope="module")
def index(finished: Run) -> CorpusIndex:
    return CorpusIndex(finished.place.address)


def sketch(text: str) -> MinHash:
    """As a user of datasketch makes it."""
    made = MinHash(num_perm=128, seed=1, hashfunc=int)
    made.update_batch([value >> 32 for value in shingle_hashes(text)])
    return made


def test_documents_are_found_with_their_exact_similarity(index: CorpusIndex) -> None:
    """Fails where a removed document is named, one is missed, or a similarity is estimated."""
    [exact] = index.similar(prose(7), 0.5)
    assert (exact.is_exact, exact.similarity, exact.missing, exact.document.text) == (True, 1.0, 0.0, prose(7))
    edited = f"{prose(7)} And the rest of it is another story, which nobody has written."
    [near] = index.similar(edited, 0.5)
    one, other = shingle_hashes(edited), shingle_hashes(prose(7))
    assert near.document.id == exact.document.id and not near.is_exact
    assert near.similarity == pytest.approx(len(one & other) / len(one | other))
    assert near.missing == pytest.approx(len(one - other) / len(one))
    [survivor] = index.similar(nearly(prose(100, 40)), 0.5)
    assert survivor.document.id == keyed_id("pages", "100")
    assert index.similar(prose(7_777), 0.5) == index.similar("", 0.5) == []


def test_a_corpus_answers_sketches_of_datasketch(index: CorpusIndex, finished: Run) -> None:
    """Fails where another document shares a band than in datasketch's own index of the same documents."""
    lsh = MinHashLSH(num_perm=128, params=(18, 7))
    for document in finished.corpus.documents():
        lsh.insert(document.id, sketch(document.text))
    for text in (prose(7), nearly(prose(100, 40)), prose(7_777), prose(3, 5)):
        assert sorted(index.query(sketch(text))) == sorted(lsh.query(sketch(text)))
    assert index.query(LeanMinHash(sketch(prose(7)))) == index.query(sketch(prose(7))) != []


def test_sketches_of_datasketch_are_our_signatures() -> None:
    [ours] = signatures(pa.array([prose(1)], pa.large_string()), SETTINGS).signature
    for made in (sketch(prose(1)), LeanMinHash(sketch(prose(1)))):
        assert np.array_equal(from_minhash(made, SETTINGS), ours)


@pytest.mark.parametrize("other", [{"seed": 2}, {"num_perm": 64}, {"scheme": "legacy"}])
def test_sketches_of_other_permutations_are_refused(other: dict[str, int | str]) -> None:
    with pytest.raises(InputError, match="cannot be compared with signatures of num_perm = 128, seed = 1"):
        from_minhash(MinHash(**other), SETTINGS)  # type: ignore[arg-type]


def test_a_corpus_is_read_as_another_corpus(finished: Run) -> None:
    """What `cloze dedup --against STORE` reads: the live documents, and no other."""
    pieces = pieces_of_corpus(finished.place.address, "")
    texts = [text for piece in pieces for chunk in chunks(piece) for text in chunk.texts.to_pylist()]
    assert texts == [document.text for document in finished.corpus.documents()]
