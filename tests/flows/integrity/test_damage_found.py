"""Every kind of file that a store holds is checked, and what is damaged is named by its path."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from harm import HARMS, contents, harm, paths_of, reseal

from corpora.errors import InputError
from corpora.store.manifest import read_part, read_part_record
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.tombstones import read_tombstones
from flows.integrity.inventory import Fault, find_faults, read_inventory
from flows.run.record.figures import read_figures
from flows.run.record.releases import read_release
from flows.run.record.run_record import Cost, read_raw_paths, read_recorded_lock, read_run

UNPUBLISHED = "a record of a part that nobody published"
FILES = {
    "a table": ("documents/pages/", ".documents.arrow"),
    "a file that is no table": ("models/small/", "model.safetensors"),
    "a record": ("signatures/pages/", "/parts/00001.json"),
    UNPUBLISHED: ("signatures/pages/", "/parts/00000.json"),
    "a file of a part that nobody published": ("signatures/pages/", "/00000.signatures.arrow"),
    "a record of a run": ("runs/20260102", "/run.json"),
    "where raw files lay": ("runs/20260102", "/raw.json"),
    "the lock of a run": ("runs/20260102", "/recipe.lock"),
    "the figures of a run": ("runs/", "/figures.json"),
    "an entry of a release": ("releases/prod/000001-",),
    "a list of what was forgotten": ("corpora/small/tombstones.json",),
}
SHARED = "/g001-pages-00001.documents.arrow"  # of all generations
MAY_BE_GONE = {
    UNPUBLISHED: "its files have no name then",
    "the figures of a run": "as of an earlier version",
}


def faults(store: Place, inside: str = "") -> list[Fault]:
    return list(find_faults(read_inventory(store, inside)))


def test_a_whole_store_has_no_faults(store: Place) -> None:
    """Fails if something that is written in the usual way is called damaged, or is not known."""
    holdings = read_inventory(store)
    assert list(find_faults(holdings)) == []
    assert len(holdings.manifests) == 27 and len(holdings.runs) == 3 and len(holdings.tombstone_files) == 1
    assert holdings.unnamed == {} and len(holdings.release_files) == 1


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize("how", HARMS)
def test_a_damaged_file_of_each_kind_is_named(store: Place, what: str, how: str) -> None:
    """Fails if a kind of file is not read, is named by another's name, or ends the check."""
    paths = paths_of(store, *FILES[what])
    if "nobody published" in what:
        published = tuple(path.removesuffix("manifest.json") for path in paths_of(store, "/manifest.json"))
        paths = [path for path in paths if not path.startswith(published)]
    path = harm(store, paths[0], how)
    missed = how != "delete" or what not in MAY_BE_GONE
    assert [fault.path for fault in faults(store)] == [path] * missed
    assert len(read_inventory(store).unnamed) == (2 if what == UNPUBLISHED else 0)


def test_what_a_release_names_is_looked_for(store: Place) -> None:
    """Fails if a release whose artifacts are gone, or others by now, is called whole."""
    [entry] = paths_of(store, "releases/prod/")
    other, gone, *_ = (artifact.folder for artifact in read_release(store, entry).artifacts)
    harm(store, f"{gone}/manifest.json", "delete")
    reseal(store, entry, lambda fields: fields["artifacts"][0].update(content="0" * 32))  # type: ignore[index]
    of_release = [fault for fault in faults(store) if fault.path.startswith("releases/prod/")]
    assert len(of_release) == 2
    assert any(f"{gone}, which it names, is gone" in fault.what for fault in of_release)
    assert any(f"{other} does not hold what was released" in fault.what for fault in of_release)


def test_figures_of_another_form_are_damaged(store: Place) -> None:
    """Fails if figures that are sealed and no figures end the check, or pass it."""
    [path] = paths_of(store, "/figures.json")
    for change in ({"figures": [1]}, {"figures": {"documents": {"worth": 1}}}, {"figures": {"documents": 1}}):
        reseal(store, path, lambda fields, change=change: fields.update(change))  # type: ignore[misc]
        assert [fault.path for fault in faults(store)] == [path]


@pytest.mark.parametrize("how", ["flip", "cut"])
def test_damaged_manifests_do_not_end_a_check(store: Place, how: str) -> None:
    """Fails if a manifest that cannot be read is a traceback, or hides a damaged file next to it."""
    manifests = [harm(store, path, how) for path in paths_of(store, "manifest.json")]
    table = harm(store, paths_of(store, "tokens/small/", ".tokens.arrow")[0])
    assert sorted(fault.path for fault in faults(store)) == sorted([*manifests, table])


def test_documents_of_a_run_are_checked_each(store: Place) -> None:
    """Fails if one document of a run is not read, or what is lost with it is not said."""
    run = paths_of(store, "/run.json")[1].rsplit("/", 1)[0]
    lost = {"raw.json": "where the raw files", "recipe.lock": "which raw files", "run.json": "the recipe of the run"}
    for name in lost:
        harm(store, f"{run}/{name}", "cut")
    for fault, (name, what) in zip(sorted(faults(store), key=lambda fault: fault.path), lost.items(), strict=True):
        assert fault.path == f"{run}/{name}" and f"cannot be made again, and this is lost: {what}" in fault.loss


def test_a_file_that_generations_share_is_named_once(store: Place) -> None:
    """Fails if a file is read once for each manifest that names it, and told as often."""
    path = harm(store, paths_of(store, "corpora/small/", SHARED)[0])
    [fault] = faults(store)
    assert fault.path == path and len(fault.artifacts) == 3
    assert str(fault) == (
        f"{path}: its bytes are not those that were written (part g001-pages-00001 of "
        f"{path.removesuffix(SHARED)} and 2 more)"
    )


@pytest.mark.parametrize("lie", ["rows", "digests", "keys", "tail"])
def test_a_record_that_lies_is_found(store: Place, lie: str) -> None:
    """Fails if a record is believed because it is sealed and its manifest names it."""
    record = paths_of(store, "tokens/small/", "/parts/g001-pages-00000.json")[0]

    def tell_a_lie(fields: dict[str, object]) -> None:
        [checks] = fields["checks"].values()  # type: ignore[attr-defined]
        batch = checks["batches"][0]
        lies = {"rows": batch["rows"] + 1, "digests": batch["digests"][::-1], "keys": [0, 1]}
        if lie == "tail":
            checks["tail"] = checks["head"]
        else:
            batch[lie] = lies[lie]

    digest = reseal(store, record, tell_a_lie)
    for path in paths_of(store, "tokens/small/", "manifest.json"):

        def name_the_lie(fields: dict[str, object]) -> None:
            for part in fields["parts"]:  # type: ignore[attr-defined]
                if f"tokens/small/{part['record']['path']}" == record:
                    part["record"]["digest"] = digest

        reseal(store, path, name_the_lie)
    [fault] = faults(store)
    assert fault.path == record and "what is not so" in fault.what


def test_another_record_is_not_the_one_that_is_named(store: Place) -> None:
    """Fails if a sealed record of other content passes for the part's."""
    record = paths_of(store, "documents/pages/", "/parts/00002.json")[0]
    store.write(record, store.read(record.replace("00002", "00001")))
    [fault] = faults(store)
    assert fault.path == record and "is not the one that the manifest names" in fault.what


def test_a_manifest_in_the_place_of_another_is_found(store: Place) -> None:
    """Fails if a manifest is believed in any folder."""
    first, second = paths_of(store, "verdicts/small/", "manifest.json")[:2]
    store.write(first, store.read(second))
    assert [(fault.path, fault.what) for fault in faults(store)] == [
        (first, f"it is the manifest of {second.removesuffix('/manifest.json')}")
    ]


def test_no_document_passes_for_another(store: Place) -> None:
    """Fails if a document of the store, or other JSON, ends in a traceback or is believed in another one's place."""
    run = paths_of(store, "/figures.json")[0].split("/")[1]
    record, [entry] = paths_of(store, "documents/pages/", "/parts/00001.json")[0], paths_of(store, "releases/prod/")
    manifest = paths_of(store, "verdicts/small/", "manifest.json")[0]
    kind, name, address = record.split("/", 2)
    readers: dict[str, Callable[[], object]] = {
        manifest: lambda: read_manifest(store, manifest.rpartition("/")[0]),
        record: lambda: (
            read_part(store, f"{kind}/{name}", address),
            read_part_record(store, f"{kind}/{name}", address),
        ),
        f"runs/{run}/run.json": lambda: read_run(store, run),
        f"runs/{run}/raw.json": lambda: read_raw_paths(store, run),
        f"runs/{run}/recipe.lock": lambda: read_recorded_lock(store, run),
        f"runs/{run}/figures.json": lambda: read_figures(store, run),
        entry: lambda: read_release(store, entry),
        "corpora/small/tombstones.json": lambda: read_tombstones(store, "small"),
    }
    whole = {path: store.read(path) for path in readers}
    for path, read in readers.items():
        read()
        for data in (
            b"[1]",
            b"7",
            b"null",
            b"\xff",
            100_000 * b"[",
            *(whole[other] for other in whole if other != path),
        ):
            store.write(path, data)
            with pytest.raises(InputError):
                read()
        store.write(path, whole[path])
    store.write(manifest, whole[record])
    store.write(f"runs/{run}/raw.json", whole[manifest])
    named = {fault.path for fault in faults(store)}
    assert named == {manifest, f"runs/{run}/raw.json"}


def test_figures_of_a_run_that_had_some_are_missed(store: Place) -> None:
    """Fails if the figures of a run of this version are gone and nobody says so."""
    [path] = paths_of(store, "/figures.json")
    reseal(store, path.replace("figures", "run"), lambda fields: fields.update(cost=asdict(Cost(
        cpu_seconds=1.0, bytes_written=1, peak_bytes=1))))  # fmt: skip
    assert faults(store) == []
    harm(store, path, "delete")
    assert [str(fault) for fault in faults(store)] == [f"{path}: it is gone"]


def test_what_nothing_names_is_no_fault(store: Place) -> None:
    """Fails if a leftover is a fault, or is not told."""
    folder = paths_of(store, "documents/notes/", "manifest.json")[0].rsplit("/", 1)[0]
    leftovers = {f"{folder}/.00000.documents.arrow.0a.tmp": b"half", f"{folder}/stray.arrow": b"a stray"}
    for path, data in leftovers.items():
        Path(store.to_full_path(path)).write_bytes(data)
    assert faults(store) == []
    assert read_inventory(store).unnamed == {path: len(data) for path, data in leftovers.items()}
    assert read_inventory(store, folder).unnamed == {path: len(data) for path, data in leftovers.items()}


def test_an_artifact_alone_is_checked_with_the_parts_that_it_points_to(store: Place) -> None:
    """Fails if only files in its own folder are read, or those of others are."""
    newest = next(
        path.rsplit("/", 1)[0]
        for path in paths_of(store, "corpora/small/", "manifest.json")
        if json.loads(contents(store)[path])["facts"]["generations"] == 3
    )
    pointed = harm(store, paths_of(store, "corpora/small/", SHARED)[0])
    harm(store, paths_of(store, "documents/pages/", ".arrow")[0])
    assert [fault.path for fault in faults(store, newest)] == [pointed]
