"""Releases: names under which runs were promoted, and the history of each name, which loses nothing.

    STORE/releases/NAME/000003-9f2c41d0.json     the third entry of a name: what it means since, who decided, and why

The newest entry of a name is what the name means; there is no pointer that could contradict it. An entry is a file with
a digest that appears in one step and is never changed: going back to an earlier release writes one more entry. Two
people who release at once write two entries, and the one that is later in order counts: on a disk each waits for its
turn; on an object store, which has no file locks, two may have the same number and differ by the digest in their names.
The run that was promoted has a copy of each entry, so that an entry that is gone is missed and can be restored.

`STORE@NAME` and `STORE@NAME:2` are addresses of what was released (`addresses.py`). What an entry names stays in the
store (`list_released_folders`). A damaged entry is never skipped: an older release would come back by accident.

Cost: a listing of `releases/`, and a small file for each entry that is read.
"""

import getpass
import hashlib
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.files import explain_disk_error
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.privacy import to_one_line
from flows.recipes.run_settings import check_release_name
from flows.run.faults.locks import hold_alone, wait_for_cleanup
from flows.run.record.run_record import RunRecord, format_now, from_sealed, print_to_stderr, to_sealed
from flows.run.stage_kinds import STAGES

RELEASES_FOLDER = "releases"
RELEASED_FOLDER = "released"  # in the folder of a run, for copies of its entries
MAX_REASON_CHARACTERS = 1_000
_ENTRY = re.compile(r"(\d{6,})-[0-9a-f]{8}\.json")
_ADDRESS = re.compile(r"(?P<store>.+)@(?P<name>[^/@:?&#]+)(?::(?P<number>\d{1,9}))?")


class DamagedRelease(Damaged):
    """Raised when a stored release (one entry in the history of a release name) is missing or damaged."""

    def __str__(self) -> str:
        name, _, file = self.path.removeprefix(f"{RELEASES_FOLDER}/").rpartition("/")
        return (
            f"{self.path} is damaged: {self.what}. It says what the release {name!r} means since then, so nothing is "
            f"taken for it. Bring the file back from a copy of the store; or move it away ({file}), and the name means "
            f"what the entry before it says (`cloze releases` shows it)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedArtifact:
    """An artifact (stored stage result) in a release: its kind, name, folder in the store and digest."""

    kind: str
    name: str
    folder: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An entry in the history of a release name. It makes the artifacts of a run available under this name.

    Attributes:
        name: Name of the release.
        number: One-based position in the history.
        action: "release" or "rollback".
        recipe: Name of the recipe.
        run: Id of the run that was released.
        artifacts: The released artifacts.
        who: The user who made the release, as user@host.
        when: Time of the release (ISO 8601).
        reason: Why the release was made, according to the user.
        approved: "bounds" if the run exceeds no limit of the recipe's `[bounds]`; "person" if a person approved it.
        crossed: Descriptions of the exceeded limits.
        back_to: Number of the entry that a rollback makes current again.
        figures: The metrics of the run, by name. Values may be infinite or NaN.
    """

    name: str
    number: int
    action: str
    recipe: str
    run: str
    artifacts: tuple[ReleasedArtifact, ...]
    who: str
    when: str
    reason: str = ""
    approved: str = "bounds"
    crossed: tuple[str, ...] = ()
    back_to: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


def list_run_artifacts(place: Place, record: RunRecord) -> tuple[ReleasedArtifact, ...]:
    """List the artifacts (stored results) of a run that a release would contain: the last one of each kind and name.

    Args:
        place: The store.
        record: The record of the run.

    Raises:
        InputError: If the run has no artifacts that can be released, or one of them is no longer in the store.
        Damaged: If the manifest of an artifact is damaged.
    """
    last = {(stage.kind, stage.name): stage.folder for stage in record.stages if STAGES[stage.kind].is_released}
    if not last:
        raise InputError(f"The run {record.run_id} has built nothing that can be released.")
    return tuple(to_released(_read_manifest(place, folder, f"the run {record.run_id}")) for folder in last.values())


def to_released(manifest: Manifest) -> ReleasedArtifact:
    """Convert a manifest (description of an artifact) to the form that is stored in a release."""
    return ReleasedArtifact(kind=manifest.kind, name=manifest.name, folder=manifest.folder, content=manifest.content)


def read_manifests(place: Place, release: Release) -> list[Manifest]:
    """Read the manifests (descriptions) of the artifacts in a release, in the release's order.

    Raises:
        InputError: If an artifact is missing, or its content has changed.
        Damaged: If a manifest is damaged.
    """
    manifests = []
    for artifact in release.artifacts:
        manifest = _read_manifest(place, artifact.folder, f"the release {release.name!r} (number {release.number})")
        if manifest.content != artifact.content:
            raise InputError(
                f"{place.to_address(artifact.folder)} does not hold what was released as {release.name!r}, number "
                f"{release.number}: its content is {manifest.content}, and was {artifact.content}. Release the run "
                "that built it again, or go back with `cloze rollback`."
            )
        manifests.append(manifest)
    return manifests


def _read_manifest(place: Place, folder: str, named_by: str) -> Manifest:
    manifest = read_manifest(place, folder)
    if manifest is None:
        raise InputError(
            f"{place.to_address(folder)} is gone, which {named_by} names. Run its recipe again, which builds the same "
            "artifact; or go back with `cloze rollback`."
        )
    return manifest


def list_release_entries(place: Place, name: str | None = None) -> list[str]:
    """Return the paths, relative to the store, of all releases made under a name, oldest first.

    Args:
        place: The store.
        name: The name. If None, the releases of all names are listed, sorted by name.
    """
    folder = RELEASES_FOLDER if name is None else f"{RELEASES_FOLDER}/{name}"
    pieces = [tuple(path.split("/")) for path in place.list_files(folder)]
    entries = [each for each in pieces if len(each) == 3 and _ENTRY.fullmatch(each[2])]
    return ["/".join(each) for each in sorted(entries, key=lambda each: (each[1], _parse_number(each[2]), each[2]))]


def list_release_names(place: Place) -> list[str]:
    """Return all release names in a store, sorted."""
    return sorted({path.split("/")[1] for path in list_release_entries(place)})


def read_history(place: Place, name: str) -> list[Release]:
    """Read all releases made under a name, oldest first. Returns [] if there are none.

    Raises:
        DamagedRelease: If one of them is damaged.
    """
    return [read_release(place, path) for path in list_release_entries(place, name)]


def read_current_release(place: Place, name: str, number: int | None = None) -> Release:
    """Read the newest release made under a name, or the one with the given number.

    Args:
        place: The store.
        name: Name of the release.
        number: One-based position in the history of the name; None for the newest.

    Raises:
        InputError: If there is no such name or number.
        DamagedRelease: If the entry is damaged.
    """
    entries = list_release_entries(place, name)
    if not entries:
        names = ", ".join(list_release_names(place)) or "none"
        raise InputError(
            f"There is no release {name!r} in {place.to_address('')}; it has {names}. `cloze release` makes one."
        )
    if number is None:
        return read_release(place, entries[-1])
    chosen = [path for path in entries if _parse_number(path) == number]
    if not chosen:
        numbers = f"{_parse_number(entries[0])} to {_parse_number(entries[-1])}"
        raise InputError(
            f"The release {name!r} has no number {number}: it has {numbers} (`cloze releases` lists them)."
        )
    return read_release(place, chosen[-1])


def find_release_before(place: Place, recipe: str, moment: str) -> Release | None:
    """Return the newest release of a recipe, under any name, that was made at or before a given time.

    Args:
        place: The store.
        recipe: Name of the recipe.
        moment: Time in the format of `format_now`.

    Returns:
        The release, or None if there is none.

    Raises:
        DamagedRelease: If any release in the store is damaged.
    """
    entries = (read_release(place, path) for path in list_release_entries(place))
    earlier = [entry for entry in entries if entry.recipe == recipe and entry.when <= moment]
    return max(earlier, key=lambda entry: entry.when, default=None)


def find_last_answered(place: Place, recipe: str, name: str, answer_kind: str, generations: int) -> int:
    """Return the number of the last generation (raw files that one run added) with released predictions.

    The number is taken from the newest release of the recipe with predictions for fewer than `generations` generations.
    As a result, a released run that is repeated makes predictions for the same documents again.

    Args:
        place: The store.
        recipe: Name of the recipe.
        name: Name of the predictions artifact.
        answer_kind: "predict" or "embed". Predictions of the other kind are ignored.
        generations: Current number of generations.

    Returns:
        The one-based number of the generation; 0 if there is none.

    Raises:
        DamagedRelease: If any release in the store is damaged.
    """
    entries = (read_release(place, path) for path in list_release_entries(place))
    for entry in sorted((e for e in entries if e.recipe == recipe), key=lambda entry: entry.when, reverse=True):
        folders = [a.folder for a in entry.artifacts if (a.kind, a.name) == ("answers", name)]
        answers = read_manifest(place, folders[0]) if folders else None
        if answers is None or answers.settings["answers"] != answer_kind:
            continue
        answered: int = answers.facts["generations"]
        if answered < generations:
            return answered
    return 0


def list_released_folders(place: Place) -> set[str]:
    """Return the folders of all artifacts (stored stage results) in any release of a store.

    Raises:
        DamagedRelease: If a release is damaged.
    """
    return {artifact.folder for path in list_release_entries(place) for artifact in read_release(place, path).artifacts}


def list_released_runs(place: Place) -> set[str]:
    """Return the ids of all runs in a store that have ever been released.

    Raises:
        DamagedRelease: If a release is damaged.
    """
    return {read_release(place, path).run for path in list_release_entries(place)}


def add_release(place: Place, entry: Release) -> Release:
    """Append a release to the history of its name, and return the release with its new number.

    If a clean-up of the store is running, waits for its end.

    Args:
        place: The store.
        entry: The release. Its `number` is ignored.

    Raises:
        InputError: If the name is not valid, the store is not writable, or a clean-up of the store has removed an
            artifact of the release.
        DamagedRelease: If the newest release of that name is damaged.
    """
    check_release_name("--name", entry.name)
    wait_for_cleanup(place, print_to_stderr)
    with _hold_history(place, entry.name):
        entries = list_release_entries(place, entry.name)
        if entries:
            read_release(place, entries[-1])  # nothing is built upon an entry that cannot be read
        number = _parse_number(entries[-1]) + 1 if entries else 1
        numbered = replace(entry, number=number, reason=to_one_line(entry.reason, MAX_REASON_CHARACTERS))
        data = to_sealed(numbered)
        path = f"{entry.name}/{number:06}-{hashlib.sha256(data).hexdigest()[:8]}.json"
        place.write(f"{RELEASES_FOLDER}/{path}", data)
        place.write(f"runs/{entry.run}/{RELEASED_FOLDER}/{path}", data)
    if wait_for_cleanup(place, print_to_stderr):  # it began before the entry was there, and has not seen it
        read_manifests(place, numbered)
    return numbered


def roll_back(place: Place, name: str, to: int | None, reason: str) -> Release:
    """Append a copy of an earlier release to the history of its name, so that it is current again. Returns the copy.

    Args:
        place: The store.
        name: Name of the release.
        to: Number of the earlier release. If None, the last one with artifacts that differ from the current ones.
        reason: Why the user rolls back.

    Raises:
        InputError: If there is no such release, or one of its artifacts is missing.
        DamagedRelease: If a release of the name is damaged.
    """
    now = read_current_release(place, name)
    target = _find_earlier(place, now) if to is None else read_current_release(place, name, to)
    read_manifests(place, target)
    back = replace(
        target, action="rollback", who=get_user(), when=format_now(), reason=reason, back_to=target.number, number=0
    )
    return add_release(place, back)


def _find_earlier(place: Place, now: Release) -> Release:
    """Return the last release of the same name with artifacts that differ from those of the current release.

    Args:
        place: The store.
        now: The current release.

    Raises:
        InputError: If there is no such release.
    """
    meant = now.back_to or now.number
    earlier = [e for e in read_history(place, now.name) if e.number < meant and e.artifacts != now.artifacts]
    if not earlier:
        raise InputError(
            f"The release {now.name!r} meant nothing else before number {meant}: there is nothing to go back to. Say "
            "with --to which number is meant (`cloze releases` lists them)."
        )
    return earlier[-1]


def get_user() -> str:
    """Return the current user and host as user@host. The user is "unknown" if there is no user name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


class ReleaseAddress(NamedTuple):
    """A parsed release address, `STORE@NAME` or `STORE@NAME:NUMBER`. `number` is None for the newest release."""

    store: str
    name: str
    number: int | None


def parse_release_address(address: str) -> ReleaseAddress | None:
    """Parse an address of the form `STORE@NAME` or `STORE@NAME:NUMBER`.

    Returns None if the address has another form, or if a file or folder with this path exists.

    >>> parse_release_address("store@prod:2")
    ReleaseAddress(store='store', name='prod', number=2)
    >>> parse_release_address("s3://bucket/store?endpoint_override=10.0.0.7:9000") is None
    True
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None or ("://" not in address and Path(address).exists()):
        return None
    return ReleaseAddress(parts["store"], parts["name"], int(parts["number"]) if parts["number"] else None)


def find_release(address: str) -> tuple[Place, Release] | None:
    """Read the release at an address such as `STORE@NAME`.

    Returns:
        The store and the release, or None if this is not a release address.

    Raises:
        InputError: If there is no such release.
        DamagedRelease: If the entry is damaged.
    """
    if (wanted := parse_release_address(address)) is None:
        return None
    place = Place(wanted.store)
    return place, read_current_release(place, wanted.name, wanted.number)


def _parse_number(path: str) -> int:
    return int(path.rpartition("/")[2].partition("-")[0])


def read_release(place: Place, path: str) -> Release:
    """Read one release by the path of its file, relative to the store.

    Raises:
        DamagedRelease: If the file is missing or damaged, or does not match its path.
    """
    try:
        data = place.read(path)
    except FileNotFoundError as error:
        raise DamagedRelease(path, "it is gone") from error
    release = from_sealed(Release, data, path, DamagedRelease)
    if (release.name, release.number) != (path.split("/")[1], _parse_number(path)):
        raise DamagedRelease(path, f"it is the entry {release.number} of {release.name!r}")
    return release


@contextmanager
def _hold_history(place: Place, name: str) -> Iterator[None]:
    """Lock the history of a release name for writing during the block. Does nothing in an object store.

    Raises:
        InputError: If the folder of the history is not writable.
    """
    if not place.is_local:
        yield
        return
    file = Path(place.to_full_path(f"{RELEASES_FOLDER}/{name}/.turn"))

    def refusal(error: OSError) -> InputError:
        return InputError(
            f"Cannot write {file.parent}: {explain_disk_error(error, 'use another store') or error.strerror}."
        )

    with hold_alone(file, refusal, lambda line: None):
        yield
