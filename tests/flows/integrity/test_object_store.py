"""A store on an object store: checked and repaired as one in a folder is."""

import io
from pathlib import Path

import pytest
from harm import flipped
from kept_store import unpacked_store, use_libraries_of
from rich.console import Console

from corpora.store.places.place import Place
from flows.command.verify import repair_store, verify_store

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.long]


def test_a_store_is_checked_and_repaired(s3_store: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where something of these takes a store for a folder. Its shards are of a version that is made no more."""
    _, folder = unpacked_store(tmp_path / "world")
    use_libraries_of(folder, monkeypatch)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        s3_store.write(file.relative_to(folder).as_posix(), file.read_bytes())
    console = Console(width=1000, file=io.StringIO(), record=True, highlight=False, soft_wrap=True)
    assert verify_store(console, s3_store.address).whole
    stored = list(s3_store.sizes(""))
    kinds = ("documents/", "counts/", "verdicts/")
    harmed = [next(path for path in stored if path.startswith(kind) and path.endswith(".arrow")) for kind in kinds]
    harmed += [next(path for path in stored if path.startswith("tokens/") and "/parts/" in path)]
    harmed += [next(path for path in stored if path.startswith("corpora/") and path.endswith("/manifest.json"))]
    for path in harmed:
        s3_store.write(path, flipped(s3_store.read(path)))
    console.export_text()
    assert not verify_store(console, s3_store.address).whole
    said = console.export_text()
    assert all(path in said for path in harmed)
    assert repair_store(console, s3_store.address).whole, console.export_text()
    assert verify_store(console, s3_store.address).whole
