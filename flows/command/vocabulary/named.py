"""Vocabularies by the names that people give: a folder, a vocab.txt, a vocabulary that a store holds.

bert/                                a folder that a tokenizer was saved to
bert/vocab.txt                       one WordPiece token a line, as BERT's are published
gpt2/encoder.json                    byte-level BPE as GPT-2's is published: its merges in vocab.bpe next to it
store/vocabularies/news/FINGERPRINT  an artifact, or a folder above it
news                                 the vocabulary of that name in the store
"""

from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.run.record.releases import release_address
from flows.run.store_address import find_artifacts, is_short, newest
from tokenizers_train.build import read_vocabulary
from tokenizers_train.vocabularies.files import bounded_bytes
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary

READABLE = ("tokenizer.json", "vocab.json", "vocab.txt")


def find_vocabulary(address: str, store: str = "store") -> Vocabulary:
    """Return the vocabulary at an address. store: where a mere name is looked up. Raises InputError if none."""
    path = Path(address)
    if path.is_file():
        return _from_file(path)
    if any((path / name).is_file() for name in READABLE):
        return load_vocabulary(path)
    if "/" in address or path.exists() or release_address(address) is not None:
        return _from_store(address)
    held = names_in(store)
    if address not in held and is_short(address):
        return _from_store(Place(store).at(address))
    if address not in held:
        has = f"which has {', '.join(held)}" if held else "which has none"
        raise InputError(
            f"There is no vocabulary {address!r} in the store {store!r}, {has}. Name a vocabulary of the store "
            "(--store names another store), a tokenizer's folder or a vocab.txt."
        )
    return _from_store(Place(store).at(f"vocabularies/{address}"))


def names_in(store: str) -> list[str]:
    """Return the names of the vocabularies that a store holds."""
    return sorted({path.split("/")[1] for path in Place(store).sizes("vocabularies") if path.count("/") >= 2})


def _from_store(address: str) -> Vocabulary:
    artifacts = find_artifacts(address, "vocabularies")
    names = sorted({artifact.manifest.name for artifact in artifacts})
    if len(names) > 1:
        raise InputError(
            f"{address} holds {len(names)} vocabularies, {', '.join(names)}: name one of them, as in "
            f"{artifacts[0].place.at(f'vocabularies/{names[0]}')}."
        )
    artifact = newest(artifacts)
    return read_vocabulary(artifact.place, artifact.manifest)


def _from_file(path: Path) -> Vocabulary:
    """Return the vocabulary of one file, whose name tells its form."""
    merges = path.with_name(path.name.replace("encoder.json", "vocab.bpe"))
    if merges != path and merges.is_file():
        files = {"vocab.json": bounded_bytes(path), "merges.txt": bounded_bytes(merges)}
        return Vocabulary.from_files(files, where=str(path))
    if merges != path:
        raise InputError(f"{path}: its merges are missing. They belong next to it, in {merges.name} of {path.parent}.")
    if path.name == "vocab.json":
        return load_vocabulary(path.parent)
    if path.suffix in (".json", ".txt"):
        return load_vocabulary(path)
    raise InputError(
        f"{path} is no vocabulary: name a tokenizer's folder, its tokenizer.json, a vocab.txt of one WordPiece token a "
        "line, or the encoder.json of a byte-level BPE with its vocab.bpe next to it."
    )
