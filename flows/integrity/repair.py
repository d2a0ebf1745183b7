"""Repair: rebuilds exactly what is damaged in a store, and nothing else.

    a record that is damaged, and its files whole      written again from the files
    a manifest with older bytes of a part              its entries are written again, in one step
    files that are damaged                             their parts are built again by a run that names them
    a manifest that is damaged                         written again from the records, by a run that names it
    a part that no manifest names yet                  its record is removed: the next run builds it
    figures of a run that are damaged                  counted again from what it used, while that is in the store

Promise: a part that is built again is first compared with the rows that its manifest promises, in a folder of its
own; only then does it replace the damaged one. Artifacts are built again in the order of the pipeline, so that
inputs are whole before what is built from them. What cannot be built again stays as it is and is named with the reason.

Cost: the runs' pages are followed once, with what planning reads; parts are built one after another in this process;
temporary space for one part.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.damage import Damaged, digest_in
from corpora.store.file_check import describe_part
from corpora.store.manifest import Manifest, Part, RecordAddress, is_record, read_record, record_path
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, PartPlan, Stage, Survey, build_part, publish, read_manifest, survey_stage
from flows.integrity.inventory import Claim, Fault, Holdings, check_claim, check_figures, faults_in, read_holdings
from flows.recipes.lock import Lock
from flows.run.faults.rebuild_damaged import refuse_changed_raw_files, refuse_lost_parts
from flows.run.pipeline import run_recipe
from flows.run.record.figures import figures_file, figures_of_run, keep_figures
from flows.run.record.run_record import (
    DamagedRun,
    RunRecord,
    newest_runs,
    passed_over,
    read_run,
    recorded_lock,
    recorded_recipe,
    to_stderr,
)
from flows.signals import scratch_folder
from trainer.launching.launch import TrainingFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrepaired:
    """A fault that remains, and why."""

    fault: Fault
    reason: str

    def __str__(self) -> str:
        return f"{self.fault}: not repaired, {self.reason}"


def repair(holdings: Holdings, faulty: Sequence[Claim], inside: str, tell: Tell) -> list[Unrepaired]:
    """Repair the damaged parts of a store and its manifests. What stays damaged is returned.

    faulty: the parts in which something is damaged; inside: the folder that was inspected
    Raises InputError where the store may not be written.
    """
    place = holdings.place
    work = _Repair(place=place, tell=tell)
    for claim in faulty:
        try:
            repair_record(place, claim, tell)
        except InputError as error:  # a folder is where the record was
            work.reasons |= dict.fromkeys(claim.artifacts, str(error))
    damaged = [*holdings.faults, *faults_in(place, faulty)]
    give_up_records(place, damaged, tell)
    work.distrusted = {fault.path for fault in damaged}
    work.build_again({owner(fault.path) for fault in damaged})
    work.build_again({folder for fault in faults_in(place, faulty) for folder in fault.artifacts})
    after = read_holdings(place, inside)
    touched = {path for claim in faulty for path in claim.paths} | work.written
    again = [claim for claim in after.claims if touched & set(claim.paths)]
    return [Unrepaired(fault=fault, reason=work.reason(fault)) for fault in [*after.faults, *faults_in(place, again)]]


def owner(path: str) -> str:
    """Return the folder of the artifact that a file was made for; others may point to it.

    >>> owner("tokens/small/77d5/00000.tokens.arrow")
    'tokens/small/77d5'
    """
    return "/".join(path.split("/")[:3])


def repair_record(place: Place, claim: Claim, tell: Tell) -> None:
    """Make a record and the manifests that name it match the files, where these are whole."""
    assert claim.part.record is not None
    address = claim.part.record.path
    newer = _newer_part(place, claim)
    if newer is not None:
        take_over(place, claim.folder, {address: newer}, tell)
        return
    own_name = Path(address).stem
    try:
        record = describe_part(place, claim.kind, claim.folder, replace(claim.part, name=own_name, record=None))
    except Damaged:
        return  # a file: its part is to be built again
    data = record.to_bytes()
    place.write(f"{claim.folder}/{address}", data)
    tell(f"{claim.folder}/{address} is written again from the files of its part")
    part = replace(claim.part, record=RecordAddress(path=address, digest=digest_in(data)))
    take_over(place, claim.folder, {address: part}, tell)


def _newer_part(place: Place, claim: Claim) -> Part | None:
    """Return the part of the existing record, where it has the promised rows, in other bytes, and is whole.

    This is so after a part was built again by another version of a library that writes files.
    """
    assert claim.part.record is not None
    try:
        part = read_record(place, claim.folder, claim.part.record.path).part
    except (FileNotFoundError, Damaged):
        return None
    other = part.record != claim.part.record and rows_of(part) == rows_of(claim.part)
    return part if other and not check_claim(place, replace(claim, part=part)) else None


def rows_of(part: Part) -> list[tuple[str, str]]:
    """Return the tables of a part and their contents: the same when another version of the program builds it."""
    return [(file.table, str(file.content)) for file in part.files]


def take_over(place: Place, stage_folder: str, parts: Mapping[str, Part], tell: Tell) -> None:
    """Make every manifest of a stage name these parts, by the addresses of their records. One step each."""
    paths = (path for path in sorted(place.sizes(stage_folder)) if path.endswith(f"/{MANIFEST}"))
    for path in paths:
        try:
            manifest = Manifest.from_bytes(place.read(path), path)
        except Damaged:
            continue  # it is written again from the records
        taken = tuple(_taken(part, parts) for part in manifest.parts)
        if taken != manifest.parts:
            place.write(path, manifest.with_parts(taken).to_bytes())
            tell(f"{path} now describes the bytes that are present; the rows are the same")


def _taken(part: Part, parts: Mapping[str, Part]) -> Part:
    """Return the newer version of a part, under the name that it has."""
    newer = parts.get(part.record.path) if part.record is not None else None
    return replace(newer, name=part.name) if newer is not None and rows_of(newer) == rows_of(part) else part


def give_up_records(place: Place, faults: Sequence[Fault], tell: Tell) -> None:
    """Remove the records of damaged parts of artifacts that were never published: a run builds the parts again."""
    for folder in sorted({folder for fault in faults for folder in fault.artifacts}):
        if place.size(f"{folder}/{MANIFEST}") is None:
            of_folder = [fault for fault in faults if folder in fault.artifacts]
            records = {fault.path for fault in of_folder if is_record(fault.path)}
            records |= {f"{folder}/parts/{fault.part}.json" for fault in of_folder if fault.part}
            for path in sorted(records):
                place.delete(path)
                tell(f"{path} is removed: its artifact is not finished, and the next run builds the part again")


def repair_figures(holdings: Holdings, tell: Tell) -> None:
    """Count damaged figures of runs again, from their artifacts as they are now."""
    place = holdings.place
    for run_id in holdings.runs:
        if any(check_figures(place, run_id)):
            try:
                figures = figures_of_run(place, record := read_run(place, run_id))
            except Damaged:
                continue  # it is reported separately
            if figures is not None:
                keep_figures(place, record, figures)
                tell(f"{figures_file(run_id)} is counted again from the artifacts of the run")


class _AllWhole(Exception):
    """Raised when nothing that a run would make is damaged any more."""


@dataclass(kw_only=True)
class _Repair:
    """The state of a repair.

    distrusted: paths of files that are damaged; wanted: folders of artifacts that are not whole
    met:        damaged files that were met while others were built; written: files that were written again
    reasons:    why an artifact is not whole, by its folder
    """

    place: Place
    tell: Tell
    distrusted: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)

    def build_again(self, folders: set[str]) -> None:
        """Make artifacts whole, by the recorded runs that name them."""
        present = {folder for folder in folders if self.place.size(f"{folder}/{MANIFEST}") is not None}
        self.wanted = present - self.reasons.keys()
        runs = list(recorded_runs(self.place)) if self.wanted else []
        for record, lock in [*reversed(runs), *runs]:  # the oldest first: newer artifacts may point to their parts
            self._follow_past_damage(record, lock)

    def _follow_past_damage(self, run: RunRecord, lock: Lock) -> None:
        """Follow a run, and once more for each damaged file that is met on the way."""
        while self.wanted & run.folders:
            try:
                self._follow(run, lock)
                return
            except Damaged as fault:
                if fault.path in self.met:
                    self._give_up(run, f"{fault.path} is damaged, which it is made from")
                    return
                self._distrust(fault)

    def reason(self, fault: Fault) -> str:
        """Return why a fault remains."""
        reasons = [self.reasons[folder] for folder in fault.artifacts if folder in self.reasons]
        return reasons[0] if reasons else "no recorded run would make it with this version"

    def _distrust(self, fault: Damaged) -> None:
        """Mark a file that turned out to be damaged while others were made from it, to be built again."""
        self.met.add(fault.path)
        self.distrusted.add(fault.path)
        self.wanted.add(owner(fault.path))

    def _give_up(self, run: RunRecord, reason: str) -> None:
        for folder in self.wanted & run.folders:
            self.reasons.setdefault(folder, reason)

    def _follow(self, run: RunRecord, lock: Lock) -> None:
        """Follow the page of a run, and build again what is wanted of it. Raises Damaged."""
        left = self.wanted & run.folders

        def perform(stages: Sequence[Stage]) -> list[Manifest]:
            for stage in stages:
                if stage.folder in left:
                    left.discard(stage.folder)
                    self._make_whole(stage)
            if not left:
                raise _AllWhole
            return [self._manifest(stage) for stage in stages]

        try:
            run_recipe(self.place, recorded_recipe(run, self.place.address), lock, perform)
        except _AllWhole:
            return
        except Damaged:
            raise
        except InputError as error:
            self._give_up(run, str(error))

    def _manifest(self, stage: Stage) -> Manifest:
        """Return what later stages are planned from: the manifest, whether its files are whole or not."""
        manifest = survey_stage(self.place, stage).manifest or read_manifest(self.place, stage.folder)
        if manifest is None:
            raise InputError(f"{stage.folder}, which it is made from, is not in the store")
        return manifest

    def _make_whole(self, stage: Stage) -> None:
        """Build the parts of a stage that are not whole, and publish it. Raises Damaged where an input is damaged."""
        survey = survey_stage(self.place, stage, self.distrusted)
        try:
            if survey.manifest is None:
                self._build(stage, survey)
            self.reasons.pop(stage.folder, None)
            self.wanted.discard(stage.folder)
        except Damaged as fault:
            if fault.path not in self.met:
                raise
            self.reasons[stage.folder] = f"{fault.path} is damaged, which it is made from"
        except (InputError, TrainingFailed) as error:
            self.reasons[stage.folder] = str(error)

    def _build(self, stage: Stage, survey: Survey) -> None:
        refuse_lost_parts(stage, survey)
        refuse_changed_raw_files(survey.missing)
        promised = promised_parts(self.place, stage, survey)
        for plan in survey.missing:
            part = build_in_place(self.place, stage, plan, promised.get(plan.name))
            paths = {f"{stage.stage_folder}/{path}" for path in part.paths}
            self.distrusted -= paths
            self.written |= paths
            self.tell(f"{stage.folder}: part {plan.name} is built again")
        manifest = publish(self.place, stage, survey)
        self.written.add(f"{stage.folder}/{MANIFEST}")
        if not survey.missing:
            self.tell(f"{stage.folder}/{MANIFEST} is written again from the records of its parts")
        parts = {part.record.path: part for part in manifest.parts if part.record is not None}
        take_over(self.place, stage.stage_folder, parts, self.tell)


def promised_parts(place: Place, stage: Stage, survey: Survey) -> dict[str, Part]:
    """Return what the manifest says of the parts to build again; where it is damaged, what their records say."""
    try:
        manifest = read_manifest(place, stage.folder)
    except Damaged:
        manifest = None
    if manifest is not None:
        return {part.name: part for part in manifest.parts}
    promised = {}
    for plan in survey.missing:
        try:
            part = read_record(place, stage.stage_folder, record_path(stage.fingerprint, plan.name)).part
        except (FileNotFoundError, Damaged):
            continue
        if part.fingerprint == stage.part_fingerprint(plan):
            promised[plan.name] = part
    return promised


def build_in_place(place: Place, stage: Stage, plan: PartPlan, promised: Part | None) -> Part:
    """Build a part in a folder of its own, and put it into the store if it has the promised rows.

    Raises InputError where it has others: then the store stays as it is.
    """
    with scratch_folder() as folder:
        out = Place(str(folder))
        part = build_part(place, stage, plan, out)
        if promised is not None and rows_of(part) != rows_of(promised):
            raise InputError(
                f"part {plan.name}, built again, holds {rows_of(part)} instead of {rows_of(promised)}, so the inputs "
                "or the program are not what they were"
            )
        for path in part.paths:  # the record comes last
            full = f"{stage.stage_folder}/{path}"
            with out.open(full) as source, place.create(full) as sink:
                shutil.copyfileobj(source, sink)
    return part


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A part that was built again next to its artifact, and both contents of each table."""

    part: str
    before: dict[str, str]
    after: dict[str, str]

    @property
    def equal(self) -> bool:
        """Return whether the rows came out the same."""
        return self.before == self.after


def rebuild_part(place: Place, manifest: Manifest, part: str | None) -> Rebuilt:
    """Build one part (the first, unless named) of an artifact again in a folder of its own, and compare.

    Raises InputError where no recorded run made the artifact or its raw files are gone.
    """
    stage = find_stage(place, manifest)
    if not stage.parts:
        raise InputError(f"{manifest.folder} cannot be built again: its raw files are gone. Restore them.")
    names = [plan.name for plan in stage.parts]
    if part is not None and part not in names:
        raise InputError(f"{manifest.folder} has no part {part!r}: it has {', '.join(names[:10])}.")
    plan = stage.parts[names.index(part) if part else 0]
    before = next(p for p in manifest.parts if p.name == plan.name)
    with scratch_folder() as folder:
        after = build_part(place, stage, plan, Place(str(folder)))
    contents = [{file.table: str(file.content) for file in p.files} for p in (before, after)]
    return Rebuilt(part=plan.name, before=contents[0], after=contents[1])


class _ParentLost(Exception):
    """Raised where a stage that the wanted one depends on is not in the store as this program would build it."""


class _StageFound(Exception):
    """Raised when the wanted stage is reached."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage


def find_stage(place: Place, manifest: Manifest) -> Stage:
    """Return the stage of an artifact, planned again from the newest recorded run that names it. Raises InputError."""

    def look(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            if stage.folder == manifest.folder:
                raise _StageFound(stage)
        manifests = [survey_stage(place, stage).manifest for stage in stages]
        whole = [manifest for manifest in manifests if manifest is not None]
        if len(whole) < len(stages):
            raise _ParentLost
        return whole

    for record, lock in recorded_runs(place):
        if manifest.folder in record.folders:
            try:
                run_recipe(place, recorded_recipe(record, place.address), lock, look)
            except _StageFound as reached:
                return reached.stage
            except _ParentLost:
                continue
    raise InputError(
        f"No recorded run in {place.address} would make {manifest.folder} with this version: run its recipe again "
        "first."
    )


def recorded_runs(place: Place) -> Iterator[tuple[RunRecord, Lock]]:
    """Yield the runs of a store with their locks, newest first; those with damaged documents are named on stderr."""
    for record in newest_runs(place):
        try:
            yield record, recorded_lock(place, record.run_id)
        except DamagedRun as fault:
            to_stderr(passed_over(fault))
