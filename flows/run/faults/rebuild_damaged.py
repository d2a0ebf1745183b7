"""Damage that a run meets: the part that holds the damaged file is built again over it, and the run goes on.

Who reads a damaged file raises `Damaged`, which names it. The run distrusts that file from then on and follows its page
once more: the survey of the stage that the file is of finds its part missing, and all else is there already. What
that part is built from is checked as it is read, so damage there is met in the same way: first the input is built
again, then this. Raw files are not read before they are what the lock says.

What nothing mends ends the run: a file that is of no stage of this run, and one that was built again and is damaged
once more.

Cost: for each damaged file the surveys and plans of all stages once more; for damaged documents one reading of their
raw files.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from corpora.errors import InputError
from corpora.judging.documents import DocumentsJob
from corpora.judging.statistics_build import StatisticsJob
from corpora.sources.bytes.objects import raw_path
from corpora.sources.contract import RawFile
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, PartPlan, Stage, Survey, survey_stage

Result = TypeVar("Result")


@dataclass(kw_only=True)
class Mending:
    """What a run knows to be damaged in its store.

    tell:       who is told of it
    distrusted: files that are not built again yet
    rebuilt:    paths of files that are
    """

    tell: Callable[[str], None]
    distrusted: dict[str, Damaged] = field(default_factory=dict)
    rebuilt: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def distrust(self, fault: Damaged) -> None:
        """Have a file built again by the next look at its stage. Raises InputError where that would mend nothing."""
        if fault.path in self.rebuilt:
            raise InputError(
                f"{fault.path} was damaged, was built again, and is damaged once more: {fault.what}. The disk or the "
                "memory of this machine is not to be trusted: test both, or run on another machine with another store."
            ) from fault
        if fault.path in self.distrusted:
            raise fault
        self.distrusted[fault.path] = fault
        self._tell(fault, "It is built again.")

    def survey(self, place: Place, stage: Stage) -> Survey:
        """What the store has of a stage, but for what is distrusted. Raises InputError where it cannot be mended.

        A manifest or record of its own that is damaged is distrusted from now on; one of another artifact is told of.
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
        """The damage for which a stage is not whole."""
        if survey.manifest is not None:
            return ()
        where = stage.stage_folder if survey.damaged else stage.folder  # a manifest may point to older artifacts
        return tuple(fault for path, fault in self.distrusted.items() if path.startswith(f"{where}/"))

    def refuse_changed_inputs(self, stage: Stage, survey: Survey) -> None:
        """Stop where damaged parts would be built again from raw files that changed. Raises InputError."""
        if survey.damaged or self.faults_of(stage, survey):
            refuse_changed_raw_files(survey.missing)

    def mended(self, survey: Survey, manifest: Manifest) -> None:
        """A stage is published after a survey: the files that were written for it are trusted again."""
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


def run_mending(run: Callable[[], Result], mending: Mending) -> Result:
    """Run, and once more for each damaged file that is met. Raises what `run` raises, and InputError."""
    while True:
        try:
            return run()
        except Damaged as fault:
            mending.distrust(fault)


def refuse_lost_parts(stage: Stage, survey: Survey) -> None:
    """Stop where parts are damaged that cannot be planned, for their raw files are gone. Raises InputError."""
    planned = {part.name for part in stage.parts}
    lost = [name for name in survey.damaged if name not in planned]
    if lost:
        raise InputError(
            f"{stage.folder}: files of part {lost[0]} are missing or damaged, and the raw files that it was made from "
            "are gone. Bring them back, then run again."
        )


def refuse_changed_raw_files(plans: Sequence[PartPlan]) -> None:
    """Stop where a raw file that these parts are to be built again from is not what the lock says.

    A file that was hashed once is believed by its size and times; what damaged a store may have changed it as well.
    Reads every file once. Raises InputError.
    """
    for file in dict.fromkeys(file for plan in plans for file in raw_files(plan)):
        try:
            with raw_path(file.path).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise InputError(
                f"Cannot read {file.path}: {error.strerror}. Check the path and its permissions."
            ) from error
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
