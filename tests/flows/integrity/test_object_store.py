"""A store on an object store: checked as one in a folder is."""

import io
from pathlib import Path

import pytest
from harm import flipped
from kept_store import unpacked_store, use_libraries_of
from rich.console import Console

from corpora.store.places.place import Place
from flows.command.verify import verify_store
from flows.run.faults.damage import DAMAGE_LIST, read_damage_list

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.long]


def test_a_store_is_checked_and_what_is_damaged_listed(
    s3_store: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if something of these takes a store for a folder."""
    _, folder = unpacked_store(tmp_path / "world")
    use_libraries_of(folder, monkeypatch)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        s3_store.write(file.relative_to(folder).as_posix(), file.read_bytes())
    console = Console(width=1000, file=io.StringIO(), record=True, highlight=False, soft_wrap=True)
    stored = list(s3_store.list_files(""))
    kinds = ("documents/", "counts/", "verdicts/")
    harmed = [next(path for path in stored if path.startswith(kind) and path.endswith(".arrow")) for kind in kinds]
    harmed += [next(path for path in stored if path.startswith("tokens/") and "/parts/" in path)]
    harmed += [next(path for path in stored if path.startswith("corpora/") and path.endswith("/manifest.json"))]
    whole = {path: s3_store.read(path) for path in harmed}
    for path, data in whole.items():
        s3_store.write(path, flipped(data))
    assert not verify_store(console, s3_store.address).is_whole
    said = console.export_text()
    assert [path for path in harmed if path not in said] == []
    assert set(read_damage_list(s3_store)) == set(harmed)
    for path, data in whole.items():
        s3_store.write(path, data)
    assert verify_store(console, s3_store.address).is_whole and s3_store.find_size(DAMAGE_LIST) is None
