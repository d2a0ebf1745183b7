"""Harm to the files of a store, and what it holds."""

import json
from collections.abc import Callable
from pathlib import Path

from corpora.store.damage import seal, unseal
from corpora.store.places.place import Place

HARMS: dict[str, Callable[[Path], object]] = {
    "flip": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "delete": lambda path: path.unlink(),
}


def flipped(data: bytes) -> bytes:
    """The same bytes but for one bit in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def harm(store: Place, path: str, how: str = "flip") -> str:
    """Flip a bit of a file, cut it, or delete it; its path."""
    HARMS[how](Path(store.to_full_path(path)))
    return path


def contents(store: Place) -> dict[str, bytes]:
    """Every file of a store."""
    root = Path(store.address)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def meaning(store: Place) -> dict[str, object]:
    """The files of a store, and what its manifests say but for bytes and names that may differ with the version."""
    said: dict[str, object] = dict.fromkeys(contents(store))
    for path in paths_of(store, "/manifest.json"):
        fields = unseal(store.read(path), path)
        for part in fields["parts"]:
            part["record"] = part["record"]["path"]
            del part["fingerprint"]
            part["files"] = [(file["path"], file["table"], file["content"]) for file in part["files"]]
        said[path] = fields
    return said


def paths_of(store: Place, *pieces: str) -> list[str]:
    """The files of a store whose paths hold all these pieces."""
    return [path for path in contents(store) if all(piece in path for piece in pieces)]


def reseal(store: Place, path: str, change: Callable[[dict[str, object]], object]) -> str:
    """Change a sealed document and seal it again; its new digest."""
    fields = unseal(store.read(path), path)
    change(fields)
    data = seal(json.dumps(fields, indent=1, ensure_ascii=False).encode())
    store.write(path, data)
    return data.decode()[-68:-4]
