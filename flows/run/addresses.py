"""Addresses that people type: of an artifact's folder, a store, the newest shards of a store, a run.

A store is recognized by what it holds: artifacts at KIND/NAME/FINGERPRINT and runs at runs/RUN. The names of the
folders above it do not matter. `STORE@NAME` is what was released under a name, `STORE@NAME:2` the second entry of its
history. Cost: one listing of what is below the address, and another of the part of it that belongs to a store.

Runs have short ids, as commits have in git: a unique beginning of the id, or a unique end of its time.

    20261126T184802483910-news     the id of a run
    483910                         its short id, which `cloze runs` lists: the last digits of the time, six or more
    20261126T18                    its beginning, if no other run began in that hour

A name that fits several runs is refused, and the message lists them. Cost: a listing of `runs/`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, read_manifest
from flows.run.record.releases import Release, find_release, read_manifests
from flows.run.record.run_record import (
    RunRecord,
    find_newest_used,
    iter_newest_runs,
    list_run_ids,
    parse_moment,
    read_run,
)
from flows.run.stage_kinds import STAGES

if TYPE_CHECKING:
    from tokenizers_train.vocabularies.vocabulary import Vocabulary


RUNS_FOLDER = "runs"
_FINGERPRINT = re.compile("[0-9a-f]{24}")
_SHORT_FINGERPRINT = re.compile("[0-9a-f]{4,23}")
_DEFAULT_STORE = "store"  # in which a short fingerprint by itself is looked up
_MAX_LISTED = 5  # artifacts named where a short fingerprint fits several
_RUN_FILE = re.compile(rf"{RUNS_FOLDER}/[^/]+/(run\.json|recipe\.toml)")
_ARTIFACT_DEPTH = 3  # of an artifact's folder in its store


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An artifact (stored result of a pipeline stage): its store, and its manifest (description of its contents)."""

    place: Place
    manifest: Manifest


def find_artifacts(address: str, kind: str | None = None) -> list[Artifact]:
    """Find the artifacts (stored results of pipeline stages) at an address.

    The address may be that of one artifact, all artifacts of a kind or name, a whole store, or a release.

    Args:
        address: Path or address. It may end in a short fingerprint (`STORE/3f2a9c`) or refer to a release
            (`STORE@NAME`).
        kind: Kind of the artifacts to return, such as "shards"; if None, artifacts of all kinds are returned.

    Returns:
        At least one artifact: sorted by path or, for a release, in the order of the release.

    Raises:
        InputError: If there is no such artifact, or a short fingerprint is ambiguous.
        Damaged: If a manifest (description of an artifact) is damaged.
    """
    if (named := find_release(address)) is not None:
        return _find_release_artifacts(address, *named, kind)
    place, inside = split_address(address)
    paths = sorted(path for path in place.list_files(inside) if is_manifest(path))
    manifests = [read_manifest(place, path.removesuffix(f"/{MANIFEST}")) for path in paths]
    artifacts = [Artifact(place=place, manifest=m) for m in manifests if m is not None and kind in (None, m.kind)]
    if not artifacts:
        what = f"{kind} artifact" if kind else "artifact"
        raise InputError(
            f"There is no {what} at {place.to_address(inside)}: give a store's folder, or an artifact's folder inside "
            "it (STORE/KIND/NAME/FINGERPRINT); `cloze run` prints where it put things."
        )
    return artifacts


def _find_release_artifacts(address: str, place: Place, release: Release, kind: str | None) -> list[Artifact]:
    """Return the artifacts of a release. Raises InputError if there are none.

    Args:
        address: The address as typed, for the message.
        place: The store.
        release: The release, with the list of its artifacts.
        kind: Kind of the artifacts to return; if None, artifacts of all kinds are returned.
    """
    manifests = [m for m in read_manifests(place, release) if kind in (None, m.kind)]
    if not manifests:
        has = ", ".join(f"{artifact.kind}/{artifact.name}" for artifact in release.artifacts)
        raise InputError(f"{address}: the release has no {kind} artifact; it has {has}.")
    return [Artifact(place=place, manifest=manifest) for manifest in manifests]


def split_address(address: str) -> tuple[Place, str]:
    """Split an address into the store and the path inside the store.

    The fingerprint of an artifact may be shortened to a unique prefix of at least four digits: `3f2a9c` in the folder
    `store`, `STORE/3f2a9c`, `STORE/shards/news/3f2a9c`.

    Returns:
        The store, and the path of the addressed folder inside it ("" for the store itself). If the address is not
        inside a recognizable store, the whole address is returned as the store.

    Raises:
        InputError: If a short fingerprint is ambiguous.
    """
    whole = Place(address)
    below = whole.list_files("")
    if not below and whole.name == MANIFEST:
        whole = whole.parent
        below = whole.list_files("")
    for place, inside in _iter_splits(whole):
        paths = (f"{inside}/{path}" if inside else path for path in below)
        if any(is_artifact_file(path) or _RUN_FILE.fullmatch(path) for path in paths):
            return place, inside
    return (not below and _find_by_prefix(address)) or (whole, "")


def has_short_fingerprint(address: str) -> bool:
    """Return True if the last component of an address could be a shortened fingerprint.

    >>> [has_short_fingerprint(each) for each in ("3f2a9c", "store/shards/news/3f2a9c", "news", "s3://bucket/3f2?x=1")]
    [True, True, False, False]
    """
    return _SHORT_FINGERPRINT.fullmatch(address.rpartition("/")[2]) is not None


def shorten_folder(folder: str) -> str:
    """Shorten the fingerprint at the end of an artifact's path to eight digits. Other paths are returned unchanged.

    >>> shorten_folder("shards/news/3f2a9c1b00112233445566ff")
    'shards/news/3f2a9c1b'
    """
    return folder[: len(folder) - 16] if _FINGERPRINT.fullmatch(folder.rpartition("/")[2]) else folder


def _find_by_prefix(address: str) -> tuple[Place, str] | None:
    """Find the artifact with a fingerprint that begins with the last component of an address.

    Returns:
        The store and the folder of the artifact in it, or None if no artifact matches.

    Raises:
        InputError: If several match.
    """
    if not has_short_fingerprint(address) or (parent := Place(address).parent).address == Place(address).address:
        return None
    place, inside = split_address(parent.address if "/" in address else _DEFAULT_STORE)
    prefix = address.rpartition("/")[2]
    manifests = (path for path in place.list_files(inside) if is_manifest(path))
    fits = sorted(path.removesuffix(f"/{MANIFEST}") for path in manifests if path.split("/")[2].startswith(prefix))
    if len(fits) > 1:
        raise InputError(
            f"{len(fits)} artifacts in {place.to_address(inside)} have a fingerprint that begins with {prefix!r}: "
            f"{', '.join(fits[:_MAX_LISTED])}{', ...' if len(fits) > _MAX_LISTED else ''}. Give more of it."
        )
    return (place, fits[0]) if fits else None


def _iter_splits(whole: Place) -> Iterator[tuple[Place, str]]:
    """Yield the possible splits of an address into (store, path inside it). The path has zero to three folders.

    The address is split as typed, and then with symbolic links resolved. A path without folders is "".
    """
    for place in (whole, whole.without_links):
        inside = ""
        for _ in range(_ARTIFACT_DEPTH + 1):
            yield place, inside
            inside = f"{place.name}/{inside}" if inside else place.name
            place = place.parent


def is_manifest(path: str) -> bool:
    """Return True if a path, relative to the store, is the manifest (description file) of an artifact."""
    return is_artifact_file(path) and path.count("/") == _ARTIFACT_DEPTH and path.endswith(f"/{MANIFEST}")


def is_artifact_file(path: str) -> bool:
    """Return True if a path, relative to the store, is a file of an artifact.

    >>> is_artifact_file(f"models/news/{24 * '0'}/manifest.json"), is_artifact_file("models/news/raw/old/text.txt")
    (True, False)
    """
    kind, *more = path.split("/")
    return kind in STAGES and len(more) >= _ARTIFACT_DEPTH and _FINGERPRINT.fullmatch(more[1]) is not None


def pick_newest(artifacts: list[Artifact]) -> Artifact:
    """Return the artifact that the newest recorded run built or reused.

    If no recorded run used any of the artifacts, the last one is returned.

    Args:
        artifacts: Artifacts of one store; must not be empty.
    """
    place = artifacts[-1].place
    return Artifact(place=place, manifest=find_newest_used(place, [artifact.manifest for artifact in artifacts]))


def read_vocabulary_for(shards: Artifact) -> "Vocabulary":
    """Load the vocabulary that a shard set was tokenized with from the store.

    Raises:
        InputError: If the vocabulary is no longer in the store.
    """
    from tokenizers_train.build import read_vocabulary  # only a few commands need it

    return read_vocabulary(shards.place, find_vocabulary(shards))


def find_vocabulary(shards: Artifact) -> Manifest:
    """Return the manifest (stored description) of the vocabulary that a shard set was tokenized with.

    Raises:
        InputError: If the vocabulary is no longer in the store.
    """
    parent = next(parent for parent in shards.manifest.parents if parent.role == "vocabularies")
    manifest = read_manifest(shards.place, f"vocabularies/{parent.name}/{parent.fingerprint}")
    if manifest is None:
        raise InputError(
            f"The vocabulary {parent.name}/{parent.fingerprint} is not in {shards.place.to_address('')} any more, and "
            "without it token ids say nothing: run the recipe again, and take what it builds."
        )
    return manifest


MIN_ID_DIGITS = 6  # digits of a short id
MAX_LISTED_RUNS = 5  # runs named where a name fits several
_RUN_ID = re.compile(r"\d{4,}(T\d*)?(-[^/]*)?")


def shorten_run_ids(run_ids: Sequence[str]) -> Mapping[str, str]:
    """Return the shortest unique id of each run of a store, by full run id.

    If an id contains no time, or has no unique short form, the full id is used.

    >>> list(shorten_run_ids(["20261126T184802483910-a", "20261127T184802483910-b"]).values())
    ['20261126', '20261127']
    >>> shorten_run_ids(["20261128T000000772041-c"])
    {'20261128T000000772041-c': '772041'}
    """
    moments = {run_id: run_id.partition("-")[0] for run_id in run_ids if parse_moment(run_id) is not None}
    short = dict(zip(run_ids, run_ids, strict=True))
    for length in range(MIN_ID_DIGITS, max(map(len, moments.values()), default=0)):
        fits = Counter(run_id[:length] for run_id in run_ids) + Counter(m[-length:] for m in moments.values())
        for run_id, moment in moments.items():
            unique = [text for text in (moment[-length:], run_id[:length]) if fits[text] == 1]
            if short[run_id] == run_id and unique:
                short[run_id] = unique[0]
    return short


def is_run_id(text: str) -> bool:
    """Return True if a string has the form of a run id, a prefix of a run id, or a short run id.

    >>> is_run_id("483910"), is_run_id("20261126T18"), is_run_id("news.toml"), is_run_id("2026.toml")
    (True, True, False, False)
    """
    return _RUN_ID.fullmatch(text) is not None


def resolve_run_id(name: str, place: Place) -> str:
    """Return the full id of a recorded run, given its full id, its short id or a prefix of its id.

    Args:
        name: The id, such as "20261126T184802483910-news", "483910" or "20261126T18".
        place: The store that contains the run's record.

    Raises:
        InputError: If no run matches, or several do.
    """
    run_ids = list_run_ids(place)
    fits = [name] if name in run_ids else [run_id for run_id in run_ids if _is_match(name, run_id)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        listed = ", ".join(fits[-MAX_LISTED_RUNS:])
        raise InputError(f"{len(fits)} runs fit {name!r}, the newest: {listed}. Give more of the id.")
    raise InputError(
        f"There is no run {name!r} in {place.to_address('')}. `cloze runs` lists those of a store; --store names "
        "another store, and a run of any store is named by its folder, STORE/runs/RUN."
    )


def _is_match(name: str, run_id: str) -> bool:
    return run_id.startswith(name) or (len(name) >= MIN_ID_DIGITS and run_id.partition("-")[0].endswith(name))


def find_run(name: str, store: str) -> tuple[Place, RunRecord]:
    """Find a recorded run by its id, its short id, its folder, or its store.

    Args:
        name: The id, or an address. For the address of a store, its newest completed run is returned.
        store: Address of the store in which ids are looked up.

    Returns:
        The store and the record of the run.

    Raises:
        InputError: If no run matches, or several do.
        DamagedRun: If the record of the run is damaged.
    """
    if "/" not in name and not Path(name).is_dir():
        place = Place(store)
        return place, read_run(place, resolve_run_id(name, place))
    place, inside = split_address(name)
    if inside.startswith(f"{RUNS_FOLDER}/"):
        return place, read_run(place, resolve_run_id(inside.split("/")[1], place))
    newest = next((run for run in iter_newest_runs(place) if run.state == "completed"), None)
    if newest is None:
        raise InputError(f"There is no completed run in {place.to_address('')}: `cloze run` records one.")
    return place, newest
