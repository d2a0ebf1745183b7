"""Faults: every file of a store, of whatever kind, compared with what the store says of it.

Cost: every byte of the parts is read once (`corpora.store.file_check`), several parts side by side; the rest is small.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.digests.arrow_layout import TableChecks
from corpora.store.file_check import check_file, is_table, side_by_side
from corpora.store.manifest import Manifest
from corpora.store.part_record import read_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST
from corpora.tombstones import read_tombstones
from flows.integrity.inventory import Claim, Fault, Holdings, identity
from flows.run.record.figures import kept_figures
from flows.run.record.releases import DamagedRelease, read_release
from flows.run.record.run_record import DamagedRun, read_run, recorded_lock, recorded_raw_paths

Advance = Callable[[int, int], None]  # bytes done, of so many

_LOST = {
    "recipe.lock": "which raw files the run read",
    "raw.json": "where the raw files of the run lay, so what is traced to them or built again from them",
    "run.json": "the recipe of the run and what it built, so its report and what is built again by its recipe",
}


def find_faults(holdings: Holdings, advance: Advance = lambda done, total: None) -> Iterator[Fault]:
    """Yield everything in a store that is damaged, documents first."""
    yield from holdings.faults
    yield from check_documents(holdings)
    yield from (fault for _, faults in check_claims(holdings.place, holdings.claims, advance) for fault in faults)


def check_documents(holdings: Holdings) -> Iterator[Fault]:
    """Yield the damage that no run would repair: in records of runs, releases, lists of what was forgotten."""
    yield from (fault for run_id in holdings.runs for fault in check_run(holdings.place, run_id))
    yield from (fault for path in holdings.releases for fault in _check_release(holdings, path))
    yield from (fault for path in holdings.tombstones for fault in _check_tombstones(holdings.place, path))


def faults_of(place: Place, manifest: Manifest) -> list[Fault]:
    """Return the damage in the parts of one artifact."""
    folder = manifest.stage_folder
    claims = [
        Claim(kind=manifest.kind, folder=folder, part=part, artifacts=(manifest.folder,), published=True)
        for part in manifest.parts
    ]
    return [fault for _, faults in check_claims(place, claims) for fault in faults]


def check_claims(
    place: Place, claims: Sequence[Claim], advance: Advance = lambda done, total: None
) -> Iterator[tuple[Claim, list[Fault]]]:
    """Yield the damage in each of some parts."""
    total, done = sum(claim.size_bytes for claim in claims), 0
    for claim, faults in zip(claims, side_by_side(partial(check_claim, place), claims), strict=True):
        done += claim.size_bytes
        advance(done, total)
        yield claim, faults


def check_claim(place: Place, claim: Claim) -> list[Fault]:
    """Return the damage in a part: in its record, its files, or what the record says of them."""
    assert claim.part.record is not None
    record = f"{claim.folder}/{claim.part.record.path}"
    damages: list[Damaged] = []
    checks: dict[str, TableChecks] = {}
    try:
        read = read_record(place, claim.folder, claim.part.record.path)
        checks = dict(read.checks)
        if read.part.record != claim.part.record:
            damages.append(Damaged(record, "its digest is not the one that the manifest names"))
        elif identity(read.part) != identity(claim.part):
            damages.append(Damaged(record, "it describes another part than the manifest"))
    except FileNotFoundError:
        damages.append(Damaged(record, "it is gone"))
    except Damaged as error:
        damages.append(error)
    for file in claim.part.files:
        path = f"{claim.folder}/{file.path}"
        if not damages and is_table(file) and file.path not in checks:
            damages.append(Damaged(record, f"it does not describe {file.path}"))
        wrong = check_file(place, claim.kind, path, file, record, None if damages else checks.get(file.path))
        damages += [wrong] if wrong is not None else []
    return [
        Fault(path=damage.path, what=damage.what, part=claim.part.name, artifacts=claim.artifacts) for damage in damages
    ]


def check_run(place: Place, run_id: str) -> Iterator[Fault]:
    """Yield the damage in the documents of a run. They cannot be made again, so the fault says what is lost."""
    damage_by_path: dict[str, str] = {}
    for read in (recorded_lock, recorded_raw_paths, read_run):
        try:
            read(place, run_id)
        except DamagedRun as fault:
            damage_by_path[fault.path] = fault.what
        except FileNotFoundError:
            continue  # missing files are checked by name below
    for name, lost in _LOST.items():
        path = f"runs/{run_id}/{name}"
        what = "it is gone" if place.size(path) is None else damage_by_path.get(path)
        if what is not None:
            yield Fault(path=path, what=f"{what}; it cannot be made again, and this is lost: {lost}")
    yield from check_figures(place, run_id)


def check_figures(place: Place, run_id: str) -> Iterator[Fault]:
    """Yield the damage in the kept figures of a run. Without them they are counted from its artifacts when needed."""
    try:
        kept_figures(place, run_id)
    except FileNotFoundError:
        return
    except Damaged as fault:
        yield Fault(path=fault.path, what=fault.what)


def _check_release(holdings: Holdings, path: str) -> Iterator[Fault]:
    """Yield the damage in an entry of a release, or in what it names."""
    try:
        release = read_release(holdings.place, path)
    except DamagedRelease as fault:
        lost = "the meaning of that name since then is lost: restore it from a copy"
        yield Fault(path=path, what=f"{fault.what}; it cannot be made again, and {lost}")
        return
    for artifact in release.artifacts:
        manifest = holdings.manifests.get(artifact.folder)
        if manifest is None and holdings.place.size(f"{artifact.folder}/{MANIFEST}") is None:
            yield Fault(path=path, what=f"{artifact.folder}, which it names, is gone: run its recipe once more")
        elif manifest is not None and manifest.content != artifact.content:
            what = (
                f"{artifact.folder} does not hold what was released: {manifest.content} instead of {artifact.content}"
            )
            yield Fault(path=path, what=what)


def _check_tombstones(place: Place, path: str) -> Iterator[Fault]:
    """Yield the damage in the list of what was forgotten in a corpus."""
    try:
        read_tombstones(place, path.split("/")[1])
    except InputError:
        yield Fault(path=path, what="it is not what was written; it cannot be made again: restore it from a copy")
