"""A store with the recipe and the raw files that it was made of, kept as an earlier version wrote it.

    recipe_path, store = unpacked_store(tmp_path)
    use_libraries_of(store, monkeypatch)         stages are the same ones whatever is installed here, and whatever
                                                 versions they have had since

It has what a store comes to hold: three generations (pages and notes; new and revised pages, a copy that is revived;
a forget), so parts that newer artifacts point to, `deleted` and `changes`; two shard sets; a model of one layer; the
records of the three runs; and in `signatures/pages` one part of an artifact that was never published.

In the archive the folder that everything lay in is called FOLDER; checkpoints of the training are left out.

WITH_TEXTS is the same store as a version wrote it whose corpora held the texts: it is never made again.
"""

import json
import tarfile
import unicodedata
from pathlib import Path

import pytest

from corpora.store.damage import seal, unseal

ARCHIVE = Path(__file__).parent / "run" / "cases" / "kept_store.tar.xz"
WITH_TEXTS = ARCHIVE.with_name("store_with_texts.tar.xz")
FOLDER = "/the/folder/of/the/recipe"
RAISED: dict[str, str] = {}  # the versions of stages whose output has changed since, by kind: where each is said


def unpacked_store(folder: Path, packed: Path = ARCHIVE) -> tuple[Path, Path]:
    """Unpack into an empty folder; the recipe's path, and the store's. Its lock and its raw files are next to it."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    for name in ("raw.json", "run.json"):  # these say where things lay
        for path in folder.glob(f"store/runs/*/{name}"):
            text = json.dumps(unseal(path.read_bytes(), name), indent=1).replace(FOLDER, str(folder))
            path.write_bytes(seal(text.encode()))
    return folder / "small.toml", folder / "store"


def use_libraries_of(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan stages as with the libraries and at the versions that the store was made with, so that they have the
    fingerprints they had.
    """
    versions: dict[str, str] = {}
    for path in sorted(store.rglob("manifest.json")):
        manifest = json.loads(path.read_bytes())
        versions |= manifest["libraries"]
        if manifest["kind"] in RAISED:
            monkeypatch.setattr(RAISED[manifest["kind"]], manifest["build_version"])
    unicode = versions.pop("unicode")
    monkeypatch.setattr("corpora.store.stage.read_version", versions.__getitem__)
    monkeypatch.setattr("corpora.judging.documents.unidata_version", unicode)
    monkeypatch.setattr(unicodedata, "unidata_version", unicode)
