"""`cloze verify`: are the files what their manifest says, and does a part built again come out the same?"""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.manifest import Manifest, StoredFile
from corpora.store.places import Place
from corpora.store.stage import Stage, build_part, survey_stage
from flows.run.addresses import Artifact
from flows.run.pipeline import run_recipe
from flows.run.records import DamagedRun, newest_runs, passed_over, recorded_lock, recorded_recipe, to_stderr

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file that is not what its manifest says."""

    artifact: str
    part: str
    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.artifact}: part {self.part}: {self.path} {self.what}"


def find_faults(artifact: Artifact) -> Iterator[Fault]:
    """Compare every file of an artifact with the size and sha256 in its manifest."""
    place, manifest = artifact.place, artifact.manifest
    folder = manifest.stage_folder
    sizes = place.sizes(folder)
    for part in manifest.parts:
        for file in part.files:
            what = _fault(place, f"{folder}/{file.path}", file, sizes)
            if what:
                yield Fault(artifact=manifest.folder, part=part.name, path=f"{folder}/{file.path}", what=what)


def _fault(place: Place, path: str, file: StoredFile, sizes: dict[str, int]) -> str | None:
    if path not in sizes:
        return "is missing"
    if sizes[path] != file.size_bytes:
        return f"has {sizes[path]} bytes instead of {file.size_bytes}"
    digest = hashlib.sha256()
    with place.open(path) as source:
        while block := source.read(CHUNK):
            digest.update(block)
    return None if digest.hexdigest() == file.sha256 else "has other bytes than were written (sha256 differs)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A part that was built again next to its artifact, and both contents of each table."""

    part: str
    before: dict[str, str]
    after: dict[str, str]

    @property
    def equal(self) -> bool:
        """Whether the rows came out the same."""
        return self.before == self.after


def rebuild_part(artifact: Artifact, part: str | None) -> Rebuilt:
    """Build one part (the first, unless named) of an artifact again in a folder of its own, and compare.

    Raises InputError where no recorded run made the artifact or its raw files are gone.
    """
    stage = find_stage(artifact)
    if not stage.parts:
        raise InputError(f"{artifact.manifest.folder} cannot be built again: its raw files are gone. Bring them back.")
    names = [plan.name for plan in stage.parts]
    if part is not None and part not in names:
        raise InputError(f"{artifact.manifest.folder} has no part {part!r}: it has {', '.join(names[:10])}.")
    plan = stage.parts[names.index(part) if part else 0]
    before = next(p for p in artifact.manifest.parts if p.name == plan.name)
    with tempfile.TemporaryDirectory(prefix="cloze-verify-") as folder:
        after = build_part(artifact.place, stage, plan, Place(folder))
    contents = [{file.table: str(file.content) for file in p.files} for p in (before, after)]
    return Rebuilt(part=plan.name, before=contents[0], after=contents[1])


class _ParentLost(Exception):
    """A stage that the wanted one depends on is not in the store as this program would build it."""


class _StageFound(Exception):
    """The stage that was looked for."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage


def find_stage(artifact: Artifact) -> Stage:
    """The stage of an artifact, planned again from the newest recorded run that names it."""
    place, wanted = artifact.place, artifact.manifest

    def look(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            if (stage.kind, stage.name, stage.fingerprint) == (wanted.kind, wanted.name, wanted.fingerprint):
                raise _StageFound(stage)
        manifests = [survey_stage(place, stage).manifest for stage in stages]
        found = [manifest for manifest in manifests if manifest is not None]
        if len(found) < len(stages):
            raise _ParentLost
        return found

    for record in newest_runs(place):
        if wanted.folder not in {stage.folder for stage in record.stages}:
            continue
        recipe = recorded_recipe(record, place.address)
        try:
            run_recipe(place, recipe, recorded_lock(place, record.run_id), look)
        except _StageFound as found:
            return found.stage
        except _ParentLost:
            continue
        except DamagedRun as fault:
            to_stderr(passed_over(fault))
    raise InputError(
        f"No recorded run in {place.address} would make {wanted.folder} with this version: run its recipe again first."
    )
