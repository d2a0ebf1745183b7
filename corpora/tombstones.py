"""Tombstones: what was forgotten, in a form that names nobody.

A forgotten document stays forgotten: its id and its text enter the corpus' tombstone list as keyed hashes
(BLAKE2b with the list's own random key), and every later build takes the list as an input, so that a raw dump
cannot bring the document back under another id or in another file.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from corpora.store.manifest import fingerprint
from corpora.store.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """Keyed hashes of forgotten ids and texts."""

    key: str = ""
    ids: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @property
    def fingerprint(self) -> str:
        """What a build that honours this list takes into its own fingerprint."""
        return fingerprint(key=self.key, ids=sorted(self.ids), texts=sorted(self.texts))

    def holds(self, id: bytes, text_hash: bytes) -> bool:
        """Whether a document with this id, or with the text of this hash, was forgotten."""
        if not self.key:
            return False
        return self._keyed(id) in self.ids or self._keyed(text_hash) in self.texts

    def with_documents(self, documents: Iterable[tuple[bytes, bytes]]) -> "Tombstones":
        """This list with more (id, text hash) pairs on it; a key is drawn with the first of them."""
        pairs = list(documents)
        if not pairs:
            return self
        if not self.key:
            return Tombstones(key=secrets.token_hex(16)).with_documents(pairs)
        ids = self.ids | {self._keyed(id) for id, _ in pairs}
        return Tombstones(key=self.key, ids=ids, texts=self.texts | {self._keyed(text) for _, text in pairs})

    def _keyed(self, data: bytes) -> str:
        return hashlib.blake2b(data, digest_size=16, key=bytes.fromhex(self.key)).hexdigest()


def text_hash(text: bytes) -> bytes:
    """16 bytes of the sha256 of a document's text."""
    return hashlib.sha256(text).digest()[:16]


def read_tombstones(place: Place, corpus: str) -> Tombstones:
    """The corpus' list; an empty one where nothing was forgotten."""
    try:
        data = json.loads(place.read(_path(corpus)))
    except FileNotFoundError:
        return Tombstones()
    return Tombstones(key=data["key"], ids=frozenset(data["ids"]), texts=frozenset(data["texts"]))


def write_tombstones(place: Place, corpus: str, tombstones: Tombstones) -> None:
    """Put the list in one step."""
    data = {"key": tombstones.key, "ids": sorted(tombstones.ids), "texts": sorted(tombstones.texts)}
    place.write(_path(corpus), (json.dumps(data, indent=1) + "\n").encode())


def _path(corpus: str) -> str:
    return f"corpora/{corpus}/tombstones.json"
