"""Repairs damage during a run: the part that holds the damaged file is built again over it, and the run continues.

Reading a damaged file raises `Damaged`, which names it. The run distrusts that file from then on and goes through its
stages again: the survey of the file's stage finds its part missing, and everything else exists already. The part's
inputs are checked as they are read, so damage there is treated the same way: first the input is built again, then the
part. Raw files are not read unless they are what the lock says.

Damage that cannot be repaired ends the run: a file that belongs to no stage of this run, and one that was built again
and is damaged once more.

Cost: for each damaged file, another survey and plan of all stages; for damaged documents, one reading of their raw
files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.judging.documents import DocumentsJob
from corpora.judging.statistics_build import StatisticsJob
from corpora.sources.contract import RawFile
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, PartPlan, Stage, Survey, survey_stage
from flows.run.faults.skipped_files import sha256_of_raw


@dataclass(kw_only=True)
class DamageTracker:
    """Tracks the damage that a run met in its store.

    tell:       is called with a line about each damaged file
    distrusted: files that are not built again yet
    rebuilt:    paths of files that are
    """

    tell: Callable[[str], None]
    distrusted: dict[str, Damaged] = field(default_factory=dict)
    rebuilt: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def distrust(self, fault: Damaged) -> None:
        """Have a file built again at the next survey of its stage. Raises InputError if that would not repair it."""
        if fault.path in self.rebuilt:
            raise InputError(
                f"{fault.path} was damaged, was built again, and is damaged again: {fault.what}. The disk or the "
                "memory of this machine is not to be trusted: test both, or run on another machine with another store."
            ) from fault
        if fault.path in self.distrusted:
            raise fault
        self.distrusted[fault.path] = fault
        self._tell(fault, "It is built again.")

    def survey(self, place: Place, stage: Stage) -> Survey:
        """Survey a stage in the store, without distrusted files. Raises InputError if it cannot be repaired.

        A damaged manifest or record of its own is distrusted from now on; one of another artifact is reported.
        """
        survey = survey_stage(place, stage, self.distrusted)
        own = [fault for fault in survey.faults if fault.path.startswith(f"{stage.folder}/")]
        for fault in own:
            self.distrust(fault)
        for fault in survey.faults:
            self._tell(fault, "It is passed over.")
        if own:
            survey = survey_stage(place, stage, self.distrusted)
        refuse_lost_parts(stage, survey)
        return survey

    def faults_of(self, stage: Stage, survey: Survey) -> tuple[Damaged, ...]:
        """The damage that keeps a stage from being whole."""
        if survey.manifest is not None:
            return ()
        where = stage.stage_folder if survey.damaged else stage.folder  # a manifest may point to older artifacts
        return tuple(fault for path, fault in self.distrusted.items() if path.startswith(f"{where}/"))

    def refuse_changed_inputs(self, stage: Stage, survey: Survey) -> None:
        """Stop if damaged parts would be built again from raw files that changed. Raises InputError."""
        if survey.damaged or self.faults_of(stage, survey):
            refuse_changed_raw_files(survey.missing)

    def trust_rebuilt(self, survey: Survey, manifest: Manifest) -> None:
        """Trust the files again that were written for a stage, which was published after a survey."""
        names = {plan.name for plan in survey.missing}
        folder = manifest.stage_folder
        written = {f"{folder}/{path}" for part in manifest.parts if part.name in names for path in part.paths}
        if survey.manifest is None:
            written.add(f"{manifest.folder}/{MANIFEST}")
        for path in written & self.distrusted.keys():
            del self.distrusted[path]
            self.rebuilt.add(path)

    def _tell(self, fault: Damaged, what_follows: str) -> None:
        if fault.path not in self._told:
            self._told.add(fault.path)
            self.tell(f"{fault.path} is damaged: {fault.what}. {what_follows}")


def run_past_damage(run: Callable[[], Result], damage: DamageTracker) -> Result:
    """Run, and run again for each damaged file. Raises what `run` raises, and InputError."""
    while True:
        try:
            return run()
        except Damaged as fault:
            damage.distrust(fault)


def refuse_lost_parts(stage: Stage, survey: Survey) -> None:
    """Stop if damaged parts cannot be planned because their raw files are gone. Raises InputError."""
    planned = {part.name for part in stage.parts}
    lost = [name for name in survey.damaged if name not in planned]
    if lost:
        raise InputError(
            f"{stage.folder}: files of part {lost[0]} are missing or damaged, and the raw files that it was made from "
            "are gone. Bring them back, then run again."
        )


def refuse_changed_raw_files(plans: Sequence[PartPlan]) -> None:
    """Stop if a raw file that these parts are to be built from again is not what the lock says.

    Usually a file that was hashed once is trusted by its size and times, but what damaged a store may have changed it.
    Reads every file once. Raises InputError.
    """
    for file in dict.fromkeys(file for plan in plans for file in raw_files(plan)):
        digest = sha256_of_raw(file.path)
        if digest != file.sha256:
            raise InputError(
                f"{file.path} has other bytes than {file.name} in the lock: its sha256 is {digest[:12]} and the lock "
                f"says {file.sha256[:12]}. Documents in the store are damaged and must be built again from it: get it "
                "again, then run again."
            )


def raw_files(plan: PartPlan) -> Iterator[RawFile]:
    """The raw files that a part is made from."""
    if isinstance(plan.job, DocumentsJob | StatisticsJob):
        yield from (piece.file for piece in plan.job.slices)
