"""Addresses that people type: an artifact's folder, a store, the newest shards of a store."""

from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import MANIFEST, read_manifest
from flows.run.pipeline import STAGES
from flows.run.records import newest_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One artifact in a store."""

    place: Place
    manifest: Manifest


def find_artifacts(address: str, kind: str | None = None) -> list[Artifact]:
    """The artifacts at an address: one artifact's folder, all of a kind or name, or a whole store.

    kind: only artifacts of this kind
    Raises InputError where none is there.
    """
    address = address.rstrip("/").removesuffix(f"/{MANIFEST}")
    place, inside = split_address(address)
    paths = sorted(path for path in place.sizes(inside) if path.endswith(f"/{MANIFEST}"))
    manifests = [read_manifest(place, path.removesuffix(f"/{MANIFEST}")) for path in paths]
    found = [Artifact(place=place, manifest=m) for m in manifests if m is not None and kind in (None, m.kind)]
    if not found:
        what = f"{kind} artifact" if kind else "artifact"
        raise InputError(
            f"There is no {what} at {address}. Give a store's folder, or an artifact's folder inside it "
            "(STORE/KIND/NAME/FINGERPRINT); `cloze run` prints where it put things."
        )
    return found


def split_address(address: str) -> tuple[Place, str]:
    """A path into a store as (store, path inside it): the part before the first known kind of artifact."""
    pieces = address.split("/")
    for index, piece in enumerate(pieces):
        if piece in STAGES and index:
            return Place("/".join(pieces[:index]) or "/"), "/".join(pieces[index:])
        if piece in STAGES and not Path(address).is_absolute():
            return Place("."), address
    return Place(address), ""


def newest(artifacts: list[Artifact]) -> Artifact:
    """The artifact that the newest recorded run made or reused; of several stores or none on record, the last."""
    place = artifacts[-1].place
    by_folder = {artifact.manifest.folder: artifact for artifact in artifacts}
    for record in newest_runs(place):
        for stage in reversed(record.stages):
            if stage.folder in by_folder:
                return by_folder[stage.folder]
    return artifacts[-1]
