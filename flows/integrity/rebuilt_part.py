"""Builds a part (file set) of an artifact again next to it, to compare the two: `cloze verify --rebuild`."""

from collections.abc import Sequence
from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_part, survey_stage
from flows.run.pipeline import run_recipe
from flows.run.record.run_record import (
    DamagedRun,
    describe_passed_over,
    iter_newest_runs,
    print_to_stderr,
    read_recorded_lock,
    read_recorded_recipe,
)
from flows.signals import open_scratch_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltPart:
    """A comparison of a part (file set of a stored stage result) with a rebuilt copy of it.

    Attributes:
        part: Name of the part.
        before: Digest of the rows of each table in the stored part, by table name.
        after: Digest of the rows of each table in the rebuilt copy, by table name.
    """

    part: str
    before: dict[str, str]
    after: dict[str, str]

    @property
    def is_equal(self) -> bool:
        """True if all tables of the stored part and the rebuilt copy have the same rows."""
        return self.before == self.after


def rebuild_part(place: Place, manifest: Manifest) -> RebuiltPart:
    """Rebuild the first part (file set) of an artifact in a temporary folder, and compare it with the stored one.

    Args:
        place: The store.
        manifest: Manifest (stored description) of the artifact (stored stage result).

    Raises:
        InputError: If no recorded run built the artifact, if this version would build a different artifact, or if the
            raw files no longer exist.
    """
    stage = find_stage(place, manifest)
    if not stage.parts:
        raise InputError(f"{manifest.folder} cannot be built again: its raw files are gone. Restore them.")
    plan = stage.parts[0]
    before = next(p for p in manifest.parts if p.name == plan.name)
    with open_scratch_folder() as folder:
        after = build_part(place, stage, plan, Place(str(folder)))
    contents = [{file.table: str(file.content) for file in p.files} for p in (before, after)]
    return RebuiltPart(part=plan.name, before=contents[0], after=contents[1])


class _ParentMissing(Exception):
    """Raised if the store lacks a stage result that the wanted pipeline stage would be built from."""


class _StageFound(Exception):
    """Raised to stop planning when the wanted pipeline stage is found.

    Args:
        stage: The plan of the wanted stage.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage


def find_stage(place: Place, manifest: Manifest) -> Stage:
    """Find the plan of the pipeline stage that built an artifact (stored stage result).

    The stage is planned again, from the recipe and lock file (the list of raw files) of the newest recorded run that
    lists the artifact. Runs with damaged files are skipped and reported on stderr.

    Args:
        place: The store.
        manifest: Manifest (stored description) of the artifact.

    Raises:
        InputError: If no recorded run would build this artifact with this version.
    """

    def survey_stages(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            if stage.folder == manifest.folder:
                raise _StageFound(stage)
        manifests = [survey_stage(place, stage).manifest for stage in stages]
        complete = [manifest for manifest in manifests if manifest is not None]
        if len(complete) < len(stages):
            raise _ParentMissing
        return complete

    for record in iter_newest_runs(place):
        if manifest.folder in record.folders:
            try:
                lock = read_recorded_lock(place, record.run_id)
                run_recipe(place, read_recorded_recipe(record, place.address), lock, survey_stages)
            except _StageFound as reached:
                return reached.stage
            except _ParentMissing:
                continue
            except DamagedRun as fault:
                print_to_stderr(describe_passed_over(fault))
    raise InputError(
        f"No recorded run in {place.address} would make {manifest.folder} with this version: run its recipe again "
        "first."
    )
