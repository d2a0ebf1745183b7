"""Reads what the documents of a store say it has, and compares every file with that.

Documents are manifests, records of parts (file sets of an artifact) and of runs, releases, and lists of forgotten rows.

Promise: a document that cannot be read is reported as a fault, and the rest is read. Nothing is read twice: a part that
several artifacts name is held once. If one of these is gone, it is reported as missing: what the newest completed run
of a recipe used, what was released, what these were made from, the documents of runs, entries of releases, and lists of
what was forgotten. `cloze gc` removes none of these.

Cost: every manifest is read, and the records that no manifest names; memory for what they say. To find faults, every
byte of the parts is read once (`corpora.store.file_check`), several parts at a time.
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

TOMBSTONES_FILE = "tombstones.json"
NO_TOMBSTONES = Tombstones().fingerprint

Advance = Callable[[int, int], None]  # bytes done, of so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file of a store that is missing or damaged.

    Attributes:
        path: Path of the file in the store.
        what: Description of the fault.
        part: Name of the part (file set of an artifact) that contains the file; "" for other files.
        artifacts: Folders of the artifacts (stored stage results) whose manifests (descriptions) name the part.
        loss: What is lost, and what to do about it; "" if a run can rebuild the file.
    """

    path: str
    what: str
    part: str = ""
    artifacts: tuple[str, ...] = ()
    loss: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.artifacts) - 1} more" if len(self.artifacts) > 1 else ""
        where = f" (part {self.part} of {self.artifacts[0]}{more})" if self.part and self.artifacts else ""
        return f"{self.path}: {self.what}{where}{self.loss and '; '}{self.loss}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A part (file set of a stored stage result) that the store should contain.

    Manifests (descriptions of results) or part records name it.

    Attributes:
        kind: Kind of the pipeline stage, such as "documents".
        folder: Folder of the stage, `KIND/NAME`.
        part: Description of the part and its files.
        artifacts: Folders of the artifacts that name the part. If no manifest names it yet, the folder of the artifact
            that it was built for.
        is_published: True if a manifest names the part.
    """

    kind: str
    folder: str
    part: Part
    artifacts: tuple[str, ...]
    is_published: bool

    @property
    def size_bytes(self) -> int:
        """The total size in bytes of this part's (file set's) files, without its record."""
        return sum(file.size_bytes for file in self.part.files)

    @property
    def paths(self) -> list[str]:
        """The paths, in the store, of this part's (file set's) files and record."""
        return [f"{self.folder}/{path}" for path in self.part.paths]


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The expected content of a store, or of a folder in it.

    It is read from the store's manifests (descriptions of stage results), records and lists.

    Attributes:
        place: The store.
        manifests: Maps the folders of the artifacts (stored stage results) to their manifests. Artifacts with an
            unreadable manifest are omitted.
        claims: All parts (file sets) that are named by manifests or have records.
        faults: The manifests and part records that cannot be read.
        unnamed: Maps the paths of artifact files that no readable manifest or record names to their sizes in bytes.
        runs: Maps the id of each recorded run to the names of its files.
        unfinished_recipes: Names of the recipes for which the newest run has no record.
        tombstone_files: Paths of the lists of forgotten rows.
        release_files: Paths of the release entries; empty if the inventory covers only a folder.
    """

    place: Place
    manifests: Mapping[str, Manifest]
    claims: tuple[Claim, ...]
    faults: tuple[Fault, ...]
    unnamed: Mapping[str, int]
    runs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unfinished_recipes: frozenset[str] = frozenset()
    tombstone_files: tuple[str, ...] = ()
    release_files: tuple[str, ...] = ()


def read_inventory(place: Place, inside: str = "") -> Inventory:
    """Read the manifests and records of a store, or of a folder in it, to find out what it should contain.

    Manifests are descriptions of stored stage results. Damaged manifests and records are listed in `faults`.

    Args:
        place: The store.
        inside: Folder of an artifact, a kind or a name in the store; "" for the whole store.

    Raises:
        InputError: If the folder has neither artifacts nor runs, or if a file has another format version.
    """
    sizes = place.list_files(inside)
    paths = [path for path in sorted(sizes) if path.split("/")[0] in STAGES]
    manifests, faults = _read_manifests(place, [path for path in paths if _is_manifest(path)])
    claims = _collect_published(manifests)
    named_paths = {path for claim in claims for path in claim.paths}
    for path in paths:
        folder = "/".join(path.split("/")[:3])
        if is_part_record(path) and path not in named_paths and folder not in manifests:
            claim = _read_unpublished(place, path, folder)
            named_paths.add(path)
            if isinstance(claim, Fault):
                faults.append(claim)
            else:
                claims.append(claim)
                named_paths |= set(claim.paths)
    if not paths and not any(path.startswith("runs/") for path in sizes):
        raise InputError(
            f"There is no artifact at {place.to_address(inside)}. Give a store's folder, or an "
            "artifact's folder inside it (STORE/KIND/NAME/FINGERPRINT); `cloze run` prints where it put things."
        )
    files_by_run = _group_files_by_run(sizes)
    runs = {run_id: files for run_id, files in files_by_run.items() if _is_recorded(files)}
    newest = {parse_recipe_name(run_id): run_id for run_id in files_by_run}
    tombstone_files = tuple(path for path in paths if path.endswith(f"/{TOMBSTONES_FILE}"))
    expected = named_paths | set(tombstone_files) | {path for path in paths if _is_manifest(path)}
    return Inventory(
        place=place,
        manifests=manifests,
        claims=tuple(claims),
        faults=tuple(faults),
        unnamed={**{path: sizes[path] for path in paths if path not in expected}, **place.list_unfinished(inside)},
        runs=runs,
        unfinished_recipes=frozenset(name for name, run_id in newest.items() if run_id not in runs),
        tombstone_files=tombstone_files,
        release_files=() if inside else tuple(list_release_entries(place)),
    )


def _group_files_by_run(sizes: Iterable[str]) -> dict[str, frozenset[str]]:
    """Group the names of run files by run id, oldest run first.

    Args:
        sizes: Paths in the store. Those outside the folder `runs` are ignored.

    Returns:
        Maps each run id to paths relative to the folder of the run, such as "run.json".
    """
    files: dict[str, set[str]] = {}
    for path in sorted(sizes):
        run_id, _, name = path.removeprefix("runs/").partition("/")
        if path.startswith("runs/") and name:
            files.setdefault(run_id, set()).add(name)
    return {run_id: frozenset(names) for run_id, names in files.items()}


def _is_recorded(files: Collection[str]) -> bool:
    """Return True if a run that has these files has a record, or once had one.

    The record is missing but once existed if the recipe file and the lock file (which records the raw files that were
    used) exist and the heartbeat file does not. A run that is being removed is not recorded.
    """
    had_one = {"recipe.toml", "recipe.lock"} <= {*files} and "running.json" not in files
    return REMOVAL_MARK not in files and ("run.json" in files or had_one)


def _is_manifest(path: str) -> bool:
    """Return True if a path in a store has the form KIND/NAME/FINGERPRINT/manifest.json."""
    return path.count("/") == 3 and path.endswith(f"/{MANIFEST}")


def _read_manifests(place: Place, paths: Sequence[str]) -> tuple[dict[str, Manifest], list[Fault]]:
    """Read the manifests (descriptions of stored stage results) at some paths.

    Returns:
        A dictionary from the artifact's folder to its manifest, and a fault for each manifest that is damaged or in
        another artifact's folder.
    """
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


def compute_identity(part: Part) -> str:
    """Compute a fingerprint of a part's (file set's) description without its name.

    Parts with equal fingerprints have the same bytes and the same record. The result is a string of hexadecimal digits.
    """
    return compute_fingerprint(**{name: value for name, value in part.to_json().items() if name != "name"})


def _collect_published(manifests: Mapping[str, Manifest]) -> list[Claim]:
    """Return one claim for each part (file set) that manifests (descriptions of stored stage results) name.

    The claim lists the folders of all artifacts that name the part.
    """
    claims: dict[tuple[str, str], Claim] = {}
    for folder, manifest in manifests.items():
        for part in manifest.parts:
            key = (manifest.stage_folder, compute_identity(part))
            before = claims.get(key)
            artifacts = (*before.artifacts, folder) if before is not None else (folder,)
            claims[key] = Claim(
                kind=manifest.kind, folder=manifest.stage_folder, part=part, artifacts=artifacts, is_published=True
            )
    return [replace(claim, artifacts=_sort_owner_first(claim)) for claim in claims.values()]


def _sort_owner_first(claim: Claim) -> tuple[str, ...]:
    """Return the folders of the artifacts that contain a part (file set), starting with the one it was built for."""
    return tuple(sorted(claim.artifacts, key=lambda folder: not claim.paths[0].startswith(f"{folder}/")))


def _read_unpublished(place: Place, path: str, folder: str) -> Claim | Fault:
    """Read the record of a part (file set) that no manifest (description of a stored stage result) names.

    Args:
        place: The store.
        path: Path of the record in the store.
        folder: Folder of the artifact that the part was built for.

    Returns:
        The claim that the record describes, or a fault if the record is damaged.
    """
    kind, name, _ = folder.split("/")
    try:
        part = read_part_record(place, f"{kind}/{name}", path.removeprefix(f"{kind}/{name}/")).part
    except Damaged as damage:
        return Fault(path=path, what=damage.what, artifacts=(folder,))
    return Claim(kind=kind, folder=f"{kind}/{name}", part=part, artifacts=(folder,), is_published=False)


LOST, REMEDY = "it cannot be made again", "restore it from a copy of the store"
_OR_RUN = ", or delete the folder of the run"
_LOSS_BY_FILE = {
    "recipe.lock": "which raw files the run read",
    "raw.json": "where the raw files of the run lay, so what is traced to them or built again from them",
    "run.json": "the recipe of the run and what it built, so its report and what is built again by its recipe",
}


def find_faults(inventory: Inventory, advance: Advance = lambda done, total: None) -> Iterator[Fault]:
    """Yield a fault for everything that is damaged or missing in a store.

    The faults of manifests (descriptions of stage results), records, releases and lists of forgotten rows come first,
    followed by those of the files of parts (file sets).

    Args:
        inventory: The inventory of the store.
        advance: Called after each part with the number of bytes checked so far and the total number of bytes.
    """
    yield from inventory.faults
    yield from (fault for run_id in inventory.runs for fault in find_run_faults(inventory.place, run_id))
    yield from _find_missing(inventory)
    yield from (fault for path in inventory.release_files for fault in _find_release_faults(inventory, path))
    yield from (fault for path in inventory.tombstone_files for fault in _find_tombstone_faults(inventory.place, path))
    yield from find_faults_in_claims(inventory.place, inventory.claims, advance)


def find_artifact_faults(place: Place, manifest: Manifest) -> list[Fault]:
    """Read all files of an artifact (stored stage result), and return a fault for each damaged or missing one.

    Args:
        place: The store.
        manifest: Manifest (description) of the artifact.
    """
    folder = manifest.stage_folder
    claims = [
        Claim(kind=manifest.kind, folder=folder, part=part, artifacts=(manifest.folder,), is_published=True)
        for part in manifest.parts
    ]
    return list(find_faults_in_claims(place, claims))


def find_faults_in_claims(
    place: Place, claims: Sequence[Claim], advance: Advance = lambda done, total: None
) -> Iterator[Fault]:
    """Read all files of some parts (file sets) in parallel, and yield the faults in the order of the parts.

    Args:
        place: The store.
        claims: The parts.
        advance: Called after each part with the number of bytes checked so far and the total number of bytes.
    """
    total, done = sum(claim.size_bytes for claim in claims), 0
    for claim, faults in zip(claims, map_in_threads(partial(find_claim_faults, place), claims), strict=True):
        done += claim.size_bytes
        advance(done, total)
        yield from faults


def find_claim_faults(place: Place, claim: Claim) -> list[Fault]:
    """Read a part (file set), and return the faults in its record and its files.

    The record must also agree with the manifest and the files.

    Args:
        place: The store.
        claim: The part, as described by its manifest or record.
    """
    assert claim.part.record is not None
    record = f"{claim.folder}/{claim.part.record.path}"
    damages: list[Damaged] = []
    checks: dict[str, TableChecks] = {}
    try:
        read = read_part_record(place, claim.folder, claim.part.record.path)
        checks = dict(read.checks)
        if read.part.record != claim.part.record:
            damages.append(Damaged(record, "its digest is not the one that the manifest names"))
        elif compute_identity(read.part) != compute_identity(claim.part):
            damages.append(Damaged(record, "it describes another part than the manifest"))
    except FileNotFoundError:
        damages.append(Damaged(record, "it is gone"))
    except Damaged as error:
        damages.append(error)
    for file in claim.part.files:
        path = f"{claim.folder}/{file.path}"
        if not damages and is_table(file) and file.path not in checks:
            damages.append(Damaged(record, f"it does not describe {file.path}"))
        file_damage = find_damage(place, claim.kind, path, file, record, None if damages else checks.get(file.path))
        damages += [file_damage] if file_damage is not None else []
    return [
        Fault(path=damage.path, what=damage.what, part=claim.part.name, artifacts=claim.artifacts) for damage in damages
    ]


def find_run_faults(place: Place, run_id: str) -> Iterator[Fault]:
    """Yield a fault for each damaged or missing file of a run, such as its recipe.

    Only the metrics file can be rebuilt. The other faults describe what is lost.

    Args:
        place: The store.
        run_id: Id of the run.
    """
    damage_by_path: dict[str, str] = {}
    for read in (read_recorded_lock, read_raw_paths, read_run):
        try:
            read(place, run_id)
        except DamagedRun as fault:
            damage_by_path[fault.path] = fault.what
        except FileNotFoundError:
            continue  # missing files are checked by name below
    for name, loss in _LOSS_BY_FILE.items():
        path = f"runs/{run_id}/{name}"
        what = "it is gone" if place.find_size(path) is None else damage_by_path.get(path)
        if what is not None:
            yield Fault(path=path, what=what, loss=f"{LOST}, and this is lost: {loss}; {REMEDY}{_OR_RUN}")
    path = get_recipe_path(run_id)
    with suppress(FileNotFoundError, DamagedRun):
        text, size = read_run(place, run_id).recipe_toml.encode(), place.find_size(path)
        if size is None or place.read(path) != text:
            what = "it is gone" if size is None else "it is not what was written"
            yield Fault(path=path, what=what, loss=f"run.json has its text as well; {REMEDY}{_OR_RUN}")
    yield from find_figure_faults(place, run_id)


def find_figure_faults(place: Place, run_id: str) -> Iterator[Fault]:
    """Yield a fault if the file with a run's metrics is damaged or missing.

    The metrics can be recomputed as long as the run's artifacts (stored stage results) exist.

    Args:
        place: The store.
        run_id: Id of the run.
    """
    try:
        read_figures(place, run_id)
    except FileNotFoundError:
        with suppress(FileNotFoundError, DamagedRun):
            record = read_run(place, run_id)
            if record.state == "completed" and record.cost is not None:  # it had figures, and what it has cost
                yield Fault(path=get_figures_path(run_id), what="it is gone")
    except Damaged as fault:
        yield Fault(path=fault.path, what=fault.what)


def _find_missing(inventory: Inventory) -> Iterator[Fault]:
    """Yield a fault for everything that a store refers to but does not contain.

    This can be an artifact (stored stage result), a release entry or a list of forgotten rows.
    """
    place, records = inventory.place, dict[str, list[RunRecord]]()
    for run_id, files in inventory.runs.items():
        with suppress(FileNotFoundError, DamagedRun):
            record = read_run(place, run_id)
            records.setdefault(record.recipe, []).append(record)
        for copy in (name for name in files if name.startswith(f"{RELEASED_FOLDER}/")):
            path = copy.replace(RELEASED_FOLDER, RELEASES_FOLDER, 1)
            if place.find_size(path) is None:
                loss = f"copy runs/{run_id}/{copy} to its place, or delete that as well: then this was never released"
                yield Fault(path=path, what="it is gone", loss=loss)
    named_by = {folder: f"the run {run_id}" for run_id, folder in _iter_run_folders(inventory, records)}
    in_removal = {str(f) for present in list_cleanups(place).values() for f in present.report.get("folders", ())}
    waiting = [*dict.fromkeys([*named_by, *(artifact.folder for artifact in _iter_released(inventory))])]
    while waiting:
        folder = waiting.pop()
        manifest = inventory.manifests.get(folder)
        if manifest is not None:
            parents = [parent.folder for parent in manifest.parents if parent.role in STAGES]
            waiting += [parent for parent in parents if parent not in named_by]
            named_by = {**dict.fromkeys(parents, folder), **named_by}
        elif folder in named_by and folder not in in_removal and place.find_size(f"{folder}/{MANIFEST}") is None:
            yield Fault(path=f"{folder}/{MANIFEST}", what=f"it is gone, and {named_by[folder]} names it")
    for manifest in inventory.manifests.values():
        path = f"corpora/{manifest.name}/{TOMBSTONES_FILE}"
        honored = manifest.settings.get("tombstones", NO_TOMBSTONES)
        if manifest.kind == "verdicts" and honored != NO_TOMBSTONES and place.find_size(path) is None:
            what = f"it is gone, and {manifest.folder} honors it"
            yield Fault(path=path, what=what, loss=f"{LOST}, and what was forgotten would come back; {REMEDY}")
            return


def _iter_run_folders(inventory: Inventory, records: Mapping[str, Sequence[RunRecord]]) -> Iterator[tuple[str, str]]:
    """Yield (run id, artifact folder) pairs for the artifacts of completed runs that a clean-up would keep.

    The newest completed run of each recipe yields all its artifacts (stored stage results). Earlier runs yield only
    artifacts of which some files remain, and nothing if a newer run has not completed, because that run may be building
    these artifacts.

    Args:
        inventory: The inventory of the store.
        records: Maps each recipe to the records of its runs, oldest first.
    """
    unpublished = {claim.artifacts[0] for claim in inventory.claims if not claim.is_published}
    unpublished |= {"/".join(path.split("/")[:3]) for path in inventory.unnamed}
    for recipe, of_recipe in records.items():
        completed = [record for record in of_recipe if record.state == "completed"]
        has_ended = of_recipe[-1].state == "completed" and recipe not in inventory.unfinished_recipes
        for record in completed:
            is_newest = record is completed[-1]
            yield from ((record.run_id, f) for f in record.folders if is_newest or (has_ended and f in unpublished))


def _iter_released(inventory: Inventory) -> Iterator[ReleasedArtifact]:
    """Yield the artifacts (stored stage results) of all readable release entries."""
    for path in inventory.release_files:
        with suppress(DamagedRelease):
            yield from read_release(inventory.place, path).artifacts


def _find_release_faults(inventory: Inventory, path: str) -> Iterator[Fault]:
    """Yield the faults of a release entry and of the artifacts (stored stage results) that it names.

    The entry may be damaged, and an artifact may be missing or have changed.

    Args:
        inventory: The inventory of the store.
        path: Path of the entry in the store.
    """
    try:
        release = read_release(inventory.place, path)
    except DamagedRelease as fault:
        loss = f"{LOST}, and this is lost: the meaning of that name since then; {REMEDY}"
        yield Fault(path=path, what=fault.what, loss=loss)
        return
    for artifact in release.artifacts:
        manifest = inventory.manifests.get(artifact.folder)
        if manifest is None and inventory.place.find_size(f"{artifact.folder}/{MANIFEST}") is None:
            what = f"{artifact.folder}, which it names, is gone"
            yield Fault(path=path, what=what, loss="run its recipe once more")
        elif manifest is not None and manifest.content != artifact.content:
            what = (
                f"{artifact.folder} does not hold what was released: {manifest.content} instead of {artifact.content}"
            )
            yield Fault(path=path, what=what, loss="release what the store holds now, or restore it from a copy")


def _find_tombstone_faults(place: Place, path: str) -> Iterator[Fault]:
    """Yield a fault if a corpus's list of forgotten rows, at `path` in the store, cannot be read."""
    try:
        read_tombstones(place, path.split("/")[1])
    except InputError:
        yield Fault(path=path, what="it is not what was written", loss=f"{LOST}; {REMEDY}")
