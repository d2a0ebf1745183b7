"""Reads what the documents of a store say it has, and compares every file with that.

Documents are manifests, records of parts and of runs, releases, lists of forgotten rows.

Promise: a document that cannot be read is a fault that is named, and the rest is read. Nothing is looked up twice: a
part that several artifacts point to is held once. What somebody names is missed if it is gone: what the newest
completed run of a recipe used, what was released, what these were made from, the documents of runs, entries of
releases, and lists of what was forgotten. `cloze gc` takes none of these.

Cost: every manifest is read, and the records that no manifest names; memory for what they say. To find faults every
byte of the parts is read once (`corpora.store.file_check`), several parts side by side.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.digests.arrow_layout import TableChecks
from corpora.store.file_check import find_damage, is_table, map_in_threads
from corpora.store.manifest import Manifest, Part, compute_fingerprint, is_part_record, read_part_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST
from corpora.tombstones import Tombstones, read_tombstones
from flows.run.faults.locks import list_cleanups
from flows.run.record.figures import get_figures_path, read_figures
from flows.run.record.releases import (
    RELEASED_FOLDER,
    RELEASES_FOLDER,
    DamagedRelease,
    ReleasedArtifact,
    list_release_entries,
    read_release,
)
from flows.run.record.run_record import (
    REMOVAL_MARK,
    DamagedRun,
    RunRecord,
    get_recipe_path,
    read_raw_paths,
    read_recorded_lock,
    read_run,
)
from flows.run.record.run_status import parse_recipe_name
from flows.run.stage_kinds import STAGES

TOMBSTONES = "tombstones.json"
NOTHING_FORGOTTEN = Tombstones().fingerprint

Advance = Callable[[int, int], None]  # bytes done, of so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file of a store that is not what was written, or is gone.

    part, artifacts: the part that it belongs to, and the artifacts that name it
    lost: what is lost with it and what to do, if no run builds it again
    """

    path: str
    what: str
    part: str = ""
    artifacts: tuple[str, ...] = ()
    lost: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.artifacts) - 1} more" if len(self.artifacts) > 1 else ""
        where = f" (part {self.part} of {self.artifacts[0]}{more})" if self.part and self.artifacts else ""
        return f"{self.path}: {self.what}{where}{self.lost and '; '}{self.lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A part that a store claims to have.

    folder:    of its stage
    artifacts: the folders of those that name it; the one that it was built for, where that has no manifest
    published: whether a manifest names it
    """

    kind: str
    folder: str
    part: Part
    artifacts: tuple[str, ...]
    published: bool

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(file.size_bytes for file in self.part.files)

    @property
    def paths(self) -> list[str]:
        """Return its files and its record, as paths in the store."""
        return [f"{self.folder}/{path}" for path in self.part.paths]


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """The documents' account of a store, or of one folder in it.

    manifests: those that can be read, by their folders; faults: documents that cannot be
    unnamed:   files among those of artifacts that nothing names, with their sizes; unfinished ones as well
    runs:      the names of the files of recorded runs, by their ids; unended: recipes whose newest run has no record
    tombstones: paths of the lists of what was forgotten
    releases:  paths of the entries of releases; with them all manifests of the store are read
    """

    place: Place
    manifests: Mapping[str, Manifest]
    claims: tuple[Claim, ...]
    faults: tuple[Fault, ...]
    unnamed: Mapping[str, int]
    runs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unended: frozenset[str] = frozenset()
    tombstones: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()


def read_holdings(place: Place, inside: str = "") -> Holdings:
    """Read the account of a store, or of one folder in it: an artifact's, or that of a kind or name.

    Raises InputError if nothing is found, or something of another format.
    """
    sizes = place.list_files(inside)
    paths = [path for path in sorted(sizes) if path.split("/")[0] in STAGES]
    manifests, faults = _read_manifests(place, [path for path in paths if _is_manifest(path)])
    claims = _published(manifests)
    named = {path for claim in claims for path in claim.paths}
    for path in paths:
        folder = "/".join(path.split("/")[:3])
        if is_part_record(path) and path not in named and folder not in manifests:
            claim = _unpublished(place, path, folder)
            named.add(path)
            if isinstance(claim, Fault):
                faults.append(claim)
            else:
                claims.append(claim)
                named |= set(claim.paths)
    if not paths and not any(path.startswith("runs/") for path in sizes):
        raise InputError(
            f"There is no artifact at {place.to_address(inside)}. Give a store's folder, or an "
            "artifact's folder inside it (STORE/KIND/NAME/FINGERPRINT); `cloze run` prints where it put things."
        )
    files_by_run = _files_by_run(sizes)
    runs = {run_id: files for run_id, files in files_by_run.items() if _is_recorded(files)}
    newest = {parse_recipe_name(run_id): run_id for run_id in files_by_run}
    lists = tuple(path for path in paths if path.endswith(f"/{TOMBSTONES}"))
    expected = named | set(lists) | {path for path in paths if _is_manifest(path)}
    return Holdings(
        place=place,
        manifests=manifests,
        claims=tuple(claims),
        faults=tuple(faults),
        unnamed={**{path: sizes[path] for path in paths if path not in expected}, **place.list_unfinished(inside)},
        runs=runs,
        unended=frozenset(name for name, run_id in newest.items() if run_id not in runs),
        tombstones=lists,
        releases=() if inside else tuple(list_release_entries(place)),
    )


def _files_by_run(sizes: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the names of the files of each run by its id, oldest first."""
    files: dict[str, set[str]] = {}
    for path in sorted(sizes):
        run_id, _, name = path.removeprefix("runs/").partition("/")
        if path.startswith("runs/") and name:
            files.setdefault(run_id, set()).add(name)
    return {run_id: frozenset(names) for run_id, names in files.items()}


def _is_recorded(files: Collection[str]) -> bool:
    """True if the run with these files has a record, or had one: what is written with it, and no sign of life.

    One that is being removed has none any more.
    """
    had_one = {"recipe.toml", "recipe.lock"} <= {*files} and "running.json" not in files
    return REMOVAL_MARK not in files and ("run.json" in files or had_one)


def _is_manifest(path: str) -> bool:
    return path.count("/") == 3 and path.endswith(f"/{MANIFEST}")


def _read_manifests(place: Place, paths: Sequence[str]) -> tuple[dict[str, Manifest], list[Fault]]:
    manifests, faults = {}, []
    for path in paths:
        folder = path.removesuffix(f"/{MANIFEST}")
        try:
            manifest = Manifest.from_bytes(place.read(path), path)
        except Damaged as damage:
            faults.append(Fault(path=path, what=damage.what, artifacts=(folder,)))
            continue
        if manifest.folder == folder:
            manifests[folder] = manifest
        else:
            faults.append(Fault(path=path, what=f"it is the manifest of {manifest.folder}", artifacts=(folder,)))
    return manifests, faults


def identity(part: Part) -> str:
    """Return the common part of two descriptions of one part, with its bytes and its record: all but its name."""
    return compute_fingerprint(**{name: value for name, value in part.to_json().items() if name != "name"})


def _published(manifests: Mapping[str, Manifest]) -> list[Claim]:
    """Return the parts that manifests name, each once."""
    claims: dict[tuple[str, str], Claim] = {}
    for folder, manifest in manifests.items():
        for part in manifest.parts:
            key = (manifest.stage_folder, identity(part))
            before = claims.get(key)
            named = (*before.artifacts, folder) if before is not None else (folder,)
            claims[key] = Claim(
                kind=manifest.kind, folder=manifest.stage_folder, part=part, artifacts=named, published=True
            )
    return [replace(claim, artifacts=_owner_first(claim)) for claim in claims.values()]


def _owner_first(claim: Claim) -> tuple[str, ...]:
    """Return the artifacts that name a part, the one that built it first."""
    return tuple(sorted(claim.artifacts, key=lambda folder: not claim.paths[0].startswith(f"{folder}/")))


def _unpublished(place: Place, path: str, folder: str) -> Claim | Fault:
    """Return the part of a record that no manifest names."""
    kind, name, _ = folder.split("/")
    try:
        part = read_part_record(place, f"{kind}/{name}", path.removeprefix(f"{kind}/{name}/")).part
    except Damaged as damage:
        return Fault(path=path, what=damage.what, artifacts=(folder,))
    return Claim(kind=kind, folder=f"{kind}/{name}", part=part, artifacts=(folder,), published=False)


LOST, REMEDY = "it cannot be made again", "restore it from a copy of the store"
_OR_RUN = ", or delete the folder of the run"
_LOST_WITH = {
    "recipe.lock": "which raw files the run read",
    "raw.json": "where the raw files of the run lay, so what is traced to them or built again from them",
    "run.json": "the recipe of the run and what it built, so its report and what is built again by its recipe",
}


def find_faults(holdings: Holdings, advance: Advance = lambda done, total: None) -> Iterator[Fault]:
    """Yield everything in a store that is damaged, documents first."""
    yield from holdings.faults
    yield from (fault for run_id in holdings.runs for fault in check_run(holdings.place, run_id))
    yield from _check_named(holdings)
    yield from (fault for path in holdings.releases for fault in _check_release(holdings, path))
    yield from (fault for path in holdings.tombstones for fault in _check_tombstones(holdings.place, path))
    yield from check_claims(holdings.place, holdings.claims, advance)


def faults_of(place: Place, manifest: Manifest) -> list[Fault]:
    """Return the damage in the parts of one artifact."""
    folder = manifest.stage_folder
    claims = [
        Claim(kind=manifest.kind, folder=folder, part=part, artifacts=(manifest.folder,), published=True)
        for part in manifest.parts
    ]
    return list(check_claims(place, claims))


def check_claims(place: Place, claims: Sequence[Claim], advance: Advance = lambda done, total: None) -> Iterator[Fault]:
    """Yield the damage in some parts."""
    total, done = sum(claim.size_bytes for claim in claims), 0
    for claim, faults in zip(claims, map_in_threads(partial(check_claim, place), claims), strict=True):
        done += claim.size_bytes
        advance(done, total)
        yield from faults


def check_claim(place: Place, claim: Claim) -> list[Fault]:
    """Return the damage in a part: in its record, its files, or what the record says of them."""
    assert claim.part.record is not None
    record = f"{claim.folder}/{claim.part.record.path}"
    damages: list[Damaged] = []
    checks: dict[str, TableChecks] = {}
    try:
        read = read_part_record(place, claim.folder, claim.part.record.path)
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
        wrong = find_damage(place, claim.kind, path, file, record, None if damages else checks.get(file.path))
        damages += [wrong] if wrong is not None else []
    return [
        Fault(path=damage.path, what=damage.what, part=claim.part.name, artifacts=claim.artifacts) for damage in damages
    ]


def check_run(place: Place, run_id: str) -> Iterator[Fault]:
    """Yield the damage in the documents of a run; all but its figures cannot be made again."""
    damage_by_path: dict[str, str] = {}
    for read in (read_recorded_lock, read_raw_paths, read_run):
        try:
            read(place, run_id)
        except DamagedRun as fault:
            damage_by_path[fault.path] = fault.what
        except FileNotFoundError:
            continue  # missing files are checked by name below
    for name, lost in _LOST_WITH.items():
        path = f"runs/{run_id}/{name}"
        what = "it is gone" if place.find_size(path) is None else damage_by_path.get(path)
        if what is not None:
            yield Fault(path=path, what=what, lost=f"{LOST}, and this is lost: {lost}; {REMEDY}{_OR_RUN}")
    path = get_recipe_path(run_id)
    with suppress(FileNotFoundError, DamagedRun):
        text, size = read_run(place, run_id).recipe_toml.encode(), place.find_size(path)
        if size is None or place.read(path) != text:
            what = "it is gone" if size is None else "it is not what was written"
            yield Fault(path=path, what=what, lost=f"run.json has its text as well; {REMEDY}{_OR_RUN}")
    yield from check_figures(place, run_id)


def check_figures(place: Place, run_id: str) -> Iterator[Fault]:
    """Yield the damage in the figures of a run; they can be counted again as long as its artifacts exist."""
    try:
        read_figures(place, run_id)
    except FileNotFoundError:
        with suppress(FileNotFoundError, DamagedRun):
            record = read_run(place, run_id)
            if record.state == "completed" and record.cost is not None:  # it had figures, and what it has cost
                yield Fault(path=get_figures_path(run_id), what="it is gone")
    except Damaged as fault:
        yield Fault(path=fault.path, what=fault.what)


def _check_named(holdings: Holdings) -> Iterator[Fault]:
    """Yield the artifacts, entries of releases and lists that something names, and that are gone."""
    place, records = holdings.place, dict[str, list[RunRecord]]()
    for run_id, files in holdings.runs.items():
        with suppress(FileNotFoundError, DamagedRun):
            record = read_run(place, run_id)
            records.setdefault(record.recipe, []).append(record)
        for copy in (name for name in files if name.startswith(f"{RELEASED_FOLDER}/")):
            path = copy.replace(RELEASED_FOLDER, RELEASES_FOLDER, 1)
            if place.find_size(path) is None:
                lost = f"copy runs/{run_id}/{copy} to its place, or delete that as well: then this was never released"
                yield Fault(path=path, what="it is gone", lost=lost)
    named_by = {folder: f"the run {run_id}" for run_id, folder in _named_by_runs(holdings, records)}
    begun = {str(folder) for present in list_cleanups(place).values() for folder in present.report.get("folders", ())}
    left = [*dict.fromkeys([*named_by, *(artifact.folder for artifact in _released(holdings))])]
    while left:
        folder = left.pop()
        manifest = holdings.manifests.get(folder)
        if manifest is not None:
            parents = [parent.folder for parent in manifest.parents if parent.role in STAGES]
            left += [parent for parent in parents if parent not in named_by]
            named_by = {**dict.fromkeys(parents, folder), **named_by}
        elif folder in named_by and folder not in begun and place.find_size(f"{folder}/{MANIFEST}") is None:
            yield Fault(path=f"{folder}/{MANIFEST}", what=f"it is gone, and {named_by[folder]} names it")
    for manifest in holdings.manifests.values():
        path = f"corpora/{manifest.name}/{TOMBSTONES}"
        honored = manifest.settings.get("tombstones", NOTHING_FORGOTTEN)
        if manifest.kind == "verdicts" and honored != NOTHING_FORGOTTEN and place.find_size(path) is None:
            what = f"it is gone, and {manifest.folder} honors it"
            yield Fault(path=path, what=what, lost=f"{LOST}, and what was forgotten would come back; {REMEDY}")
            return


def _named_by_runs(holdings: Holdings, records: Mapping[str, Sequence[RunRecord]]) -> Iterator[tuple[str, str]]:
    """Yield runs and the folders of artifacts that they completed with and that a clean-up would not have taken.

    Of earlier runs of a recipe these are such as have files left, unless a run that has not completed is making them.
    records: of the runs of each recipe, oldest first
    """
    unpublished = {claim.artifacts[0] for claim in holdings.claims if not claim.published}
    unpublished |= {"/".join(path.split("/")[:3]) for path in holdings.unnamed}
    for recipe, of_recipe in records.items():
        completed = [record for record in of_recipe if record.state == "completed"]
        ended = of_recipe[-1].state == "completed" and recipe not in holdings.unended
        for record in completed:
            is_newest = record is completed[-1]
            yield from ((record.run_id, f) for f in record.folders if is_newest or (ended and f in unpublished))


def _released(holdings: Holdings) -> Iterator[ReleasedArtifact]:
    """Yield the artifacts of all entries of releases that can be read."""
    for path in holdings.releases:
        with suppress(DamagedRelease):
            yield from read_release(holdings.place, path).artifacts


def _check_release(holdings: Holdings, path: str) -> Iterator[Fault]:
    """Yield the damage in an entry of a release, or in what it names."""
    try:
        release = read_release(holdings.place, path)
    except DamagedRelease as fault:
        lost = f"{LOST}, and this is lost: the meaning of that name since then; {REMEDY}"
        yield Fault(path=path, what=fault.what, lost=lost)
        return
    for artifact in release.artifacts:
        manifest = holdings.manifests.get(artifact.folder)
        if manifest is None and holdings.place.find_size(f"{artifact.folder}/{MANIFEST}") is None:
            gone = f"{artifact.folder}, which it names, is gone"
            yield Fault(path=path, what=gone, lost="run its recipe once more")
        elif manifest is not None and manifest.content != artifact.content:
            what = (
                f"{artifact.folder} does not hold what was released: {manifest.content} instead of {artifact.content}"
            )
            yield Fault(path=path, what=what, lost="release what the store holds now, or restore it from a copy")


def _check_tombstones(place: Place, path: str) -> Iterator[Fault]:
    """Yield the damage in the list of what was forgotten in a corpus."""
    try:
        read_tombstones(place, path.split("/")[1])
    except InputError:
        yield Fault(path=path, what="it is not what was written", lost=f"{LOST}; {REMEDY}")
