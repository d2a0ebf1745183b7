"""Tombstones: what was forgotten, in a form that names nobody.

A forgotten document stays forgotten: its id and its text enter the corpus' tombstone list as keyed hashes
(BLAKE2b with the list's own random key), and every later build takes the list as an input, so that a raw dump
cannot bring the document back under another id or in another file.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from corpora.errors import InputError
from corpora.store.damage import Damaged, seal, unseal
from corpora.store.manifest import compute_fingerprint
from corpora.store.places.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """The ids and texts that must never enter a corpus again, as keyed hashes, which reveal neither.

    Attributes:
        key: The random key of the hashes, in hexadecimal digits. Empty if the list is empty.
        ids: Hashes of document ids.
        texts: Hashes of text hashes.
        since: Maps each hash that was added later to the number of the corpus update from which it applies. Earlier
            updates are not affected, so no older file has to be rewritten.
    """

    key: str = ""
    ids: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    since: Mapping[str, int] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Digest of the list, which is included in the fingerprint of every stage that applies the list."""
        return compute_fingerprint(key=self.key, ids=sorted(self.ids), texts=sorted(self.texts))

    def is_forgotten(self, id: bytes, text_hash: bytes) -> bool:
        """Return True if the list contains a document's id or the hash of its text (from `hash_text`)."""
        if not self.key:
            return False
        return self._hash_keyed(id) in self.ids or self._hash_keyed(text_hash) in self.texts

    def as_of(self, generation: int) -> "Tombstones":
        """Return a list with only the hashes that apply to the given corpus update (counted from 1)."""
        ids, texts = (
            frozenset(entry for entry in entries if self.since.get(entry, 1) <= generation)
            for entries in (self.ids, self.texts)
        )
        return Tombstones(key=self.key, ids=ids, texts=texts) if ids or texts else Tombstones()

    def with_documents(self, documents: Iterable[tuple[bytes, bytes]], generation: int = 1) -> "Tombstones":
        """Return a list that also contains these documents.

        If the list was empty, a random key is drawn. Entries that already exist keep the update from which they apply.

        Args:
            documents: Pairs of document id and text hash (see `hash_text`).
            generation: The corpus update from which the new entries apply.
        """
        pairs = list(documents)
        if not pairs:
            return self
        if not self.key:
            return Tombstones(key=secrets.token_hex(16)).with_documents(pairs, generation)
        ids, texts = ({self._hash_keyed(data) for data in column} for column in zip(*pairs, strict=True))
        new = (ids | texts) - self.ids - self.texts if generation > 1 else set()
        return Tombstones(
            key=self.key,
            ids=self.ids | ids,
            texts=self.texts | texts,
            since={**self.since, **dict.fromkeys(sorted(new), generation)},
        )

    def _hash_keyed(self, data: bytes) -> str:
        return hashlib.blake2b(data, digest_size=16, key=bytes.fromhex(self.key)).hexdigest()


def hash_text(text: bytes | memoryview) -> bytes:
    """Compute the first 16 bytes of the SHA-256 digest of a document's text in UTF-8."""
    return hashlib.sha256(text).digest()[:16]


def read_tombstones(place: Place, corpus: str) -> Tombstones:
    """Read the tombstone list of the corpus with this name: the documents that must never enter it again.

    The list is empty if no document was ever forgotten.

    Raises:
        InputError: If the file is damaged. It cannot be rebuilt.
    """
    path = _tombstones_path(corpus)
    try:
        fields = unseal(place.read(path), path)
        if set(fields) != {"key", "ids", "texts", "since"}:
            raise Damaged(path, f"it holds {', '.join(fields)}")
    except FileNotFoundError:
        return Tombstones()
    except Damaged as fault:
        raise InputError(
            f"{path} in {place.to_address('')} is damaged: {fault.what}. It says what was forgotten, and nothing can "
            "make it again: bring it back from a copy of the store."
        ) from fault
    lists = {name: frozenset(fields[name]) for name in ("ids", "texts")}
    return Tombstones(key=fields["key"], **lists, since=fields["since"])


def write_tombstones(place: Place, corpus: str, tombstones: Tombstones) -> None:
    """Write the tombstone list (the forgotten documents) of the corpus with this name to a store.

    The file is replaced atomically, and contains a checksum.
    """
    lists = {"ids": sorted(tombstones.ids), "texts": sorted(tombstones.texts)}
    data = {"key": tombstones.key, **lists, "since": dict(sorted(tombstones.since.items()))}
    place.write(_tombstones_path(corpus), seal(json.dumps(data, indent=1).encode()))


def _tombstones_path(corpus: str) -> str:
    return f"corpora/{corpus}/tombstones.json"
