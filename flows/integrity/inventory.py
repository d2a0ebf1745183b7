"""Reads what the documents of a store say it has: manifests, records of parts, runs, releases, lists of forgotten rows.

Promise: a document that cannot be read is a fault that is named, and the rest is read. Nothing is looked up twice: a
part that several artifacts point to is held once.

Cost: every manifest is read, and the records that no manifest names; memory for what they say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, Part, fingerprint, is_record, read_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST
from flows.run.pipeline import STAGES
from flows.run.record.releases import release_entries

TOMBSTONES = "tombstones.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file of a store that is not what was written, or is gone.

    part, artifacts: the part that it belongs to, and the artifacts that name it
    """

    path: str
    what: str
    part: str = ""
    artifacts: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.artifacts) - 1} more" if len(self.artifacts) > 1 else ""
        where = f" (part {self.part} of {self.artifacts[0]}{more})" if self.part and self.artifacts else ""
        return f"{self.path}: {self.what}{where}"


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
    runs:      ids of recorded runs; tombstones: paths of the lists of what was forgotten
    releases:  paths of the entries of releases; with them all manifests of the store are read
    """

    place: Place
    manifests: Mapping[str, Manifest]
    claims: tuple[Claim, ...]
    faults: tuple[Fault, ...]
    unnamed: Mapping[str, int]
    runs: tuple[str, ...] = ()
    tombstones: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of all files of parts."""
        return sum(claim.size_bytes for claim in self.claims)


def read_holdings(place: Place, inside: str = "") -> Holdings:
    """Read the account of a store, or of one folder in it: an artifact's, or that of a kind or name.

    Raises InputError where nothing is found, or something of another format.
    """
    sizes = place.sizes(inside)
    paths = [path for path in sorted(sizes) if path.split("/")[0] in STAGES]
    manifests, faults = _read_manifests(place, [path for path in paths if _is_manifest(path)])
    claims = _published(manifests)
    named = {path for claim in claims for path in claim.paths}
    for path in paths:
        folder = "/".join(path.split("/")[:3])
        if is_record(path) and path not in named and folder not in manifests:
            claim = _unpublished(place, path, folder)
            named.add(path)
            if isinstance(claim, Fault):
                faults.append(claim)
            else:
                claims.append(claim)
                named |= set(claim.paths)
    if not paths and not any(path.startswith("runs/") for path in sizes):
        raise InputError(
            f"There is no artifact at {place.at(inside)}. Give a store's folder, or an "
            "artifact's folder inside it (STORE/KIND/NAME/FINGERPRINT); `cloze run` prints where it put things."
        )
    lists = tuple(path for path in paths if path.endswith(f"/{TOMBSTONES}"))
    expected = named | set(lists) | {path for path in paths if _is_manifest(path)}
    return Holdings(
        place=place,
        manifests=manifests,
        claims=tuple(claims),
        faults=tuple(faults),
        unnamed={**{path: sizes[path] for path in paths if path not in expected}, **place.unfinished(inside)},
        runs=tuple(path.split("/")[1] for path in sorted(sizes) if path.startswith("runs/") and _is_run(path)),
        tombstones=lists,
        releases=() if inside else tuple(release_entries(place)),
    )


def _is_manifest(path: str) -> bool:
    return path.count("/") == 3 and path.endswith(f"/{MANIFEST}")


def _is_run(path: str) -> bool:
    return path.count("/") == 2 and path.endswith("/run.json")


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
    return fingerprint(**{name: value for name, value in part.to_json().items() if name != "name"})


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
        part = read_record(place, f"{kind}/{name}", path.removeprefix(f"{kind}/{name}/")).part
    except Damaged as damage:
        return Fault(path=path, what=damage.what, artifacts=(folder,))
    return Claim(kind=kind, folder=f"{kind}/{name}", part=part, artifacts=(folder,), published=False)
