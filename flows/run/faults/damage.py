"""Repairs damage during a run: the part (one file set of a stage's output) with a damaged file is built again, and the
run continues.

Reading a damaged file raises `Damaged`, which names it. The run marks that file as damaged and goes through its stages
again: the survey of the file's stage finds its part missing, and everything else exists already. The part's inputs are
checked as they are read, so damage there is treated the same way: first the input is built again, then the part. Raw
files are not read unless they are what the lock says. Files that `cloze verify` has listed in the store
(`read_damage_list`) are marked from the start, and taken off the list when they are built again.

If the files of a part are whole, its record is written again from these files, and nothing is built.

Damage that cannot be repaired ends the run: a file that belongs to no stage of this run, and one that was built again
and is damaged once more.

Cost: for each damaged file, another survey and plan of all stages; for damaged documents, one reading of their raw
files.

Quarantine: a record at which every attempt of a task ended is passed over, and the lock says so. The cause may be a
time or memory limit, or a crash in a library. None of these decides by itself what is in a corpus, because the next
attempt may end differently: it ends the worker, and so fails the attempt. The lock's list of such records is an input
of the run like its raw files: with that lock every machine passes the record over and counts it as dropped (parse:
quarantined). Take its line out of the lock to have it tried again. A worker that stalled does not count as an attempt:
the pool replaces it and calls again (`corpora.store.worker_pool`).

Records that could not be read (damaged, locked or too large) are dropped by their source and counted; no other record
is lost by that. `describe_unread_records` reports them. Cost: nothing without such a record; else the dropped rows of
the parts that have the first of them.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from shlex import quote

from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.judging.documents import DocumentsJob
from corpora.judging.statistics_build import StatisticsJob
from corpora.schema import DROPPED, DroppedDocument, iter_dropped
from corpora.sources.passed_over import UNOPENED_KINDS, FileCounts
from corpora.store.damage import Damaged, explain_parse_errors, find_digest, seal, unseal
from corpora.store.file_check import rebuild_part_record
from corpora.store.manifest import Manifest, Part, compute_fingerprint, is_part_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, Stage, Survey, list_contents, read_manifest, survey_stage
from corpora.store.tables import read_part_table
from corpora.store.worker_pool import WorkerDied
from flows.recipes.lock import Lock
from flows.recipes.privacy import Privacy, to_one_line
from flows.recipes.recipe import Recipe
from flows.run.faults.locks import change_lock
from flows.run.faults.skipped_files import hash_raw_file, list_left_out
from flows.run.inputs.unread_files import LOST_FILE
from flows.run.record.counts_text import format_count
from flows.run.record.run_record import QUARANTINED, SetAside

DAMAGE_LIST = "damaged.json"


def read_damage_list(place: Place) -> dict[str, str]:
    """Read the list of damaged files that `cloze verify` wrote to a store, as {path: description of the damage}.

    Returns {} if there is no list.

    Raises:
        InputError: If the list itself is damaged.
    """
    try:
        fields = unseal(place.read(DAMAGE_LIST), DAMAGE_LIST)
        with explain_parse_errors(DAMAGE_LIST, "a list of damaged files"):
            return {str(path): str(what) for path, what in fields["damaged"].items()}
    except FileNotFoundError:
        return {}
    except Damaged as fault:
        raise InputError(
            f"{place.to_address(DAMAGE_LIST)}, the list of damaged files, is damaged itself: {fault.what}. Check the "
            "whole store with `cloze verify`, which writes it again."
        ) from fault


def write_damage_list(place: Place, damaged: Mapping[str, str]) -> None:
    """Write a store's list of damaged files, or remove the list if nothing is damaged.

    Args:
        place: The store.
        damaged: Description of the damage, by path relative to the store.

    Raises:
        InputError: If the store is not writable.
    """
    if damaged:
        place.write(DAMAGE_LIST, seal(json.dumps({"damaged": damaged}, indent=1, ensure_ascii=False).encode()))
    elif place.find_size(DAMAGE_LIST) is not None:
        place.delete(DAMAGE_LIST)


@dataclass(kw_only=True)
class DamageTracker:
    """Tracks the damaged files in the store during a run.

    Attributes:
        place: The store.
        tell: Called with a line about each damaged file.
        damaged: Description of the damage of each file that was not rebuilt yet, by path relative to the store.
        listed: Paths of the files on the store's list of damaged files.
        rebuilt: Paths of the files that were rebuilt.
    """

    place: Place
    tell: Callable[[str], None]
    damaged: dict[str, Damaged] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    rebuilt: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def mark_listed(self, names: Collection[str]) -> None:
        """Mark the files on the store's damage list that belong to artifacts (stored stage results) with given names.

        Args:
            names: Names of the artifacts, such as those that a recipe builds.

        Raises:
            InputError: If the list itself is damaged.
        """
        damaged = read_damage_list(self.place)
        self.listed = {path for path in damaged if path.split("/")[1] in names}
        self.damaged |= {path: Damaged(path, damaged[path]) for path in self.listed}
        if self.listed:
            files = format_count(len(self.listed), "file")
            self.tell(f"`cloze verify` found {files} damaged. What this recipe makes of them is built again.")

    def mark_damaged(self, fault: Damaged) -> None:
        """Mark a file as damaged. The next `survey` of its stage then reports its part (file set) as missing.

        Raises:
            InputError: If the file was already rebuilt in this run, so that rebuilding it would not help.
            Damaged: Raised with `fault` if the file is already marked, because then no stage of this run can rebuild
                it.
        """
        if fault.path in self.rebuilt:
            raise InputError(
                f"{fault.path} was damaged, was built again, and is damaged again: {fault.what}. The disk or the "
                "memory of this machine is not to be trusted: test both, or run on another machine with another store."
            ) from fault
        if fault.path in self.damaged:
            raise fault
        self.damaged[fault.path] = fault
        self._tell(fault, "It is built again.")

    def survey(self, stage: Stage) -> Survey:
        """Check which results of a pipeline stage the store contains, treating damaged files as missing.

        If the stage's manifest (stored description) or the records of its parts (file sets) are damaged, they are
        marked. Damage in the results of other stages is only reported.

        Raises:
            InputError: If damaged files cannot be rebuilt because the raw files that they were built from are gone.
        """
        survey = survey_stage(self.place, stage, self.damaged)
        if self._leave_lost(stage, list_lost_parts(stage, survey)):
            survey = survey_stage(self.place, stage, self.damaged)
        own = [fault for fault in survey.faults if fault.path.startswith(f"{stage.folder}/")]
        for fault in own:
            self.mark_damaged(fault)
        for fault in survey.faults:
            self._tell(fault, "It is passed over.")
        if own:
            survey = survey_stage(self.place, stage, self.damaged)
        if lost := list_lost_parts(stage, survey):
            raise InputError(
                f"{stage.folder}: files of part {lost[0]} are missing or damaged, and the raw files that it was made "
                "from are gone. Bring them back, then run again."
            )
        return survey

    def _leave_lost(self, stage: Stage, names: Collection[str]) -> bool:
        """Unmark files of parts that cannot be rebuilt, if they are on the store's list. Returns True if there are any.

        A run that reads one of these files still stops.

        Args:
            stage: The stage.
            names: Names of the stage's parts (file sets) that cannot be rebuilt.
        """
        manifest = read_manifest(self.place, stage.folder) if names and self.listed else None
        parts = manifest.parts if manifest is not None else ()
        paths = {f"{stage.stage_folder}/{path}" for part in parts if part.name in names for path in part.paths}
        for path in (left := paths & self.listed & self.damaged.keys()):
            self._tell(self.damaged.pop(path), "It stays so, because the raw files that it was made from are gone.")
        return bool(left)

    def rewrite_records(self, stage: Stage) -> None:
        """Rewrite the damaged records of a stage's parts (file sets), if all files of these parts are intact."""
        wanted = {path for path in self.damaged if is_part_record(path) and path.startswith(f"{stage.stage_folder}/")}
        if not wanted or f"{stage.folder}/{MANIFEST}" in self.damaged:
            return
        try:
            manifest = read_manifest(self.place, stage.folder)
        except Damaged:
            return  # the survey meets it, too
        for part in manifest.parts if manifest is not None else ():
            assert part.record is not None
            path = f"{stage.stage_folder}/{part.record.path}"
            own = replace(part, name=Path(path).stem, record=None)
            with suppress(Damaged):  # of its files: they are built again, and it with them
                if path in wanted:
                    data = rebuild_part_record(self.place, stage.kind, stage.stage_folder, own).to_bytes()
                    if find_digest(data) == part.record.digest:
                        self.place.write(path, data)
                        self._unmark({path})

    def list_faults(self, stage: Stage, survey: Survey) -> tuple[Damaged, ...]:
        """Return the damaged files that make a stage's result incomplete, or () if the result is complete.

        Args:
            stage: The stage.
            survey: The results of the stage that the store contains.
        """
        if survey.manifest is not None:
            return ()
        where = stage.stage_folder if survey.damaged else stage.folder  # a manifest may point to older artifacts
        return tuple(fault for path, fault in self.damaged.items() if path.startswith(f"{where}/"))

    def refuse_changed_inputs(self, stage: Stage, survey: Survey) -> None:
        """Check that the raw files needed to rebuild damaged parts (file sets) still have their recorded content.

        Each of these raw files is read once, because the cause of the damage may have changed raw files without
        changing their size or times.

        Args:
            stage: The stage.
            survey: The results of the stage that the store contains.

        Raises:
            InputError: If the content of a file has changed.
        """
        if not survey.damaged and not self.list_faults(stage, survey):
            return
        jobs = (plan.job for plan in survey.missing if isinstance(plan.job, DocumentsJob | StatisticsJob))
        for file in dict.fromkeys(piece.file for job in jobs for piece in job.slices):
            digest = hash_raw_file(file.path)
            if digest != file.sha256:
                raise InputError(
                    f"{file.path} has other bytes than {file.name} in the lock: its sha256 is {digest[:12]} and the "
                    f"lock says {file.sha256[:12]}. Documents in the store are damaged and must be built again from "
                    "it: get it again, then run again."
                )

    def mark_rebuilt(self, survey: Survey, manifest: Manifest) -> None:
        """Unmark the damaged files of a stage that were rewritten after a survey.

        Args:
            survey: Which results of the stage the store contained before it was built.
            manifest: The manifest (description) of the stage's new result.
        """
        names = {plan.name for plan in survey.missing}
        folder, built = manifest.stage_folder, [part for part in manifest.parts if part.name in names]
        written = {f"{folder}/{path}" for part in built for path in part.paths}
        if survey.damaged or written & self.damaged.keys():
            self._share_rebuilt(folder, built, frozenset(written | self.damaged.keys()))
        if survey.manifest is None:
            written.add(f"{manifest.folder}/{MANIFEST}")
        self._unmark(written & self.damaged.keys())

    def _share_rebuilt(self, folder: str, built: Sequence[Part], stale: frozenset[str]) -> None:
        """Update a stage's manifests to refer to rebuilt parts (file sets) instead of damaged or overwritten files.

        Args:
            folder: Folder of the stage's kind and name, relative to the store.
            built: The parts that were built.
            stale: Paths of files that were overwritten or are damaged.
        """
        newer = {part.fingerprint: part for part in built}

        def shared(part: Part) -> Part:
            new = newer.get(part.fingerprint, part)
            is_stale = not stale.isdisjoint(f"{folder}/{path}" for path in part.paths)
            return replace(new, name=part.name) if is_stale and list_contents(new) == list_contents(part) else part

        for path in [path for path in self.place.list_files(folder) if path.endswith(f"/{MANIFEST}")]:
            with suppress(Damaged):  # a run that needs it meets that
                manifest = Manifest.from_bytes(self.place.read(path), path)
                parts = tuple(map(shared, manifest.parts))
                if parts != manifest.parts:
                    self.place.write(path, manifest.with_parts(parts).to_bytes(), is_final=True)
                    left = {f"{folder}/{file}" for part in manifest.parts for file in part.paths}
                    left -= {f"{folder}/{file}" for part in parts for file in part.paths}
                    self._unmark(left & self.damaged.keys())

    def _unmark(self, paths: Collection[str]) -> None:
        """Move paths from `damaged` to `rebuilt`, and remove them from the store's list of damaged files."""
        for path in paths:
            del self.damaged[path]
            self.rebuilt.add(path)
        if self.listed.intersection(paths):
            left = {path: what for path, what in read_damage_list(self.place).items() if path not in paths}
            write_damage_list(self.place, left)

    def _tell(self, fault: Damaged, what_follows: str) -> None:
        if fault.path not in self._told:
            self._told.add(fault.path)
            self.tell(f"{fault.path} is damaged: {fault.what}. {what_follows}")


def run_past_damage(run: Callable[[], Result], damage: DamageTracker) -> Result:
    """Call `run` repeatedly until it finishes, so that damaged files are rebuilt, and return its result.

    Args:
        run: Function without arguments. If it raises `Damaged`, the damaged file is marked before the next call.
        damage: The damaged files of the store. `run` must treat them as missing.

    Raises:
        InputError: If a rebuilt file is damaged again. Other exceptions from `run` are passed on.
        Damaged: If no stage of this run rebuilds the file.
    """
    while True:
        try:
            return run()
        except Damaged as fault:
            damage.mark_damaged(fault)


def list_lost_parts(stage: Stage, survey: Survey) -> list[str]:
    """Return the names of a stage's damaged parts (file sets) that cannot be rebuilt, because their raw files are gone.

    Args:
        stage: The stage.
        survey: The results of the stage that the store contains.
    """
    planned = {part.name for part in stage.parts}
    return [name for name in survey.damaged if name not in planned]


MAX_QUARANTINED = 20  # in one run; if more records end their workers, the records are not the cause


def add_to_quarantine(recipe: Recipe, lock: Lock, error: WorkerDied, tell: Callable[[str], None]) -> Lock:
    """Quarantine a record that crashed a worker process: add it to the lock file, so that all runs skip it.

    Args:
        recipe: The recipe. The lock file is next to it.
        lock: Content of the lock file at the start of the run.
        error: The crash, which includes the record's location.
        tell: Called with a line about the record.

    Returns:
        The new content of the lock file.

    Raises:
        InputError: If the lock file cannot be written.
    """
    location = error.record
    change_lock(recipe.lock_path, tell, lambda on_disk: _add_record(on_disk, location))
    tell(f"{describe_record(lock, location)} is in quarantine from now on: {error}")
    return _add_record(lock, location)


def describe_record(lock: Lock, location: str) -> str:
    """Describe a quarantined record by its byte position and raw file.

    Args:
        lock: Content of the lock file. It is used to find the name of the raw file.
        location: Sha256 of the raw file, stream number (-1 if the file has no streams) and byte offset,
            space-separated.

    >>> describe_record(Lock(), "ab12 -1 300")
    'The record at byte 300 of a raw file (sha256 ab12)'
    """
    digest, stream, offset = location.split(" ")
    files = (file for generation in lock.generations for files in generation.values() for file in files)
    name = next((file.name for file in files if file.sha256 == digest), "a raw file")
    at = f"byte {offset}" if int(stream) < 0 else f"byte {offset} of stream {stream}"
    return f"The record at {at} of {name} (sha256 {digest[:12]})"


def explain_deaths(error: WorkerDied) -> str:
    """Build the error message for a task that crashed on every attempt, but not always at the same record.

    Args:
        error: The last crash. Its text comes first in the message.
    """
    return (
        f"{error} Each attempt ended, and no one record is to blame. If memory ran out, run with fewer `--workers`; "
        "if it was a limit of [workers], raise it; if a step or library of your own crashes, fix it. "
        "Finished parts are kept, and the same command resumes from there."
    )


def _add_record(lock: Lock, location: str) -> Lock:
    return replace(lock, quarantine=tuple(sorted({*lock.quarantine, location})))


UNREAD_REASONS = ("damaged", "encrypted", "drm", "too large")  # of the step that parses
SET_ASIDE_KINDS = {
    "damaged": "damaged record",
    "encrypted": "encrypted record",
    "drm": "locked record",
    "quarantined": QUARANTINED,
}
MAX_NAMED, MAX_DETAIL = 10, 100  # records, and of why each could not be read


NO_LOCATION = (0, "")  # the place of a file that is in no generation


def find_set_aside(
    lock: Lock, documents: Sequence[Manifest], looked: Mapping[str, FileCounts], before: Collection[SetAside]
) -> tuple[SetAside, ...]:
    """Count the records and files that a run skips because they cannot be read, by kind and place.

    Args:
        lock: Content of the run's lock file.
        documents: Manifests of the parsed documents of all sources, both newly built and reused.
        looked: Counts of the other files that were found next to each source's raw files, by source name.
        before: What the previous completed run skipped. It is used to count what is skipped for the first time.

    Returns:
        One entry for each kind (such as "damaged record") and place (the folder of the documents, or the source and its
        files), or () if nothing is skipped.
    """
    places = lock.file_locations
    found = [
        (kind, number, manifest.folder)
        for manifest in documents
        for reason, kind in SET_ASIDE_KINDS.items()
        if (number := manifest.ledger.find_account("records").outcomes.get(f"dropped: parse: {reason}", 0))
    ]
    files = list_left_out(lock, documents)
    left_out = Counter((file.source, places.get((file.source, file.sha256), NO_LOCATION)[0]) for file in files)
    found += [("unreadable file", number, f"{name} {came}") for (name, came), number in left_out.items()]
    found += [
        (group.kind, group.number, f"{source} {compute_fingerprint(names=group.names)}")
        for source, files in looked.items()
        for group in files.passed_over
        if group.kind in (*UNOPENED_KINDS, LOST_FILE)
    ]
    known = {(each.kind, each.place): each.number for each in before}
    return tuple(
        SetAside(kind=kind, number=number, place=place, new=max(0, number - known.get((kind, place), 0)))
        for kind, number, place in found
    )


def describe_unread_records(place: Place, documents: Manifest, samples: str) -> list[str]:
    """Return a line for each reason why records could not be parsed, or [] for a manifest of another kind.

    A line contains the number of records, and the positions of the first MAX_NAMED of them.

    Args:
        place: The store.
        documents: Manifest of the parsed documents of a source.
        samples: The recipe's `privacy.samples`. It determines whether file names are shown.

    Raises:
        Damaged: If the table of dropped records is damaged.
    """
    if documents.kind != "documents":
        return []
    outcomes = documents.ledger.find_account("records").outcomes
    numbers = {reason: outcomes.get(f"dropped: parse: {reason}", 0) for reason in UNREAD_REASONS}
    folder = quote(place.to_address(documents.folder))
    lines = []
    for reason, number in numbers.items():
        if number:
            first = ", ".join(
                _name_record(row, samples) for row in islice(_iter_rows(place, documents, reason), MAX_NAMED)
            )
            more = f" and {number - MAX_NAMED:,} more" if number > MAX_NAMED else ""
            what = format_count(number, f"record is {reason} and left out", f"records are {reason} and left out")
            lines.append(f"{documents.name}: {what}: {first}{more}. `cloze inspect {folder}` shows them.")
    return lines


def _iter_rows(place: Place, documents: Manifest, reason: str) -> Iterator[DroppedDocument]:
    """Yield the records of a source that were dropped during parsing for one reason.

    Args:
        place: The store.
        documents: Manifest of the source's parsed documents.
        reason: The reason, such as "damaged".

    Raises:
        Damaged: During iteration, if the table of dropped records is damaged.
    """
    with_some = (
        part
        for part in documents.parts
        if part.ledger.find_account("records").outcomes.get(f"dropped: parse: {reason}")
    )
    tables = (read_part_table(place, documents.stage_folder, part, "dropped", DROPPED.names) for part in with_some)
    return (row for row in iter_dropped(chain.from_iterable(tables)) if (row.step, row.reason) == ("parse", reason))


def _name_record(row: DroppedDocument, samples: str) -> str:
    detail = f" ({to_one_line(row.detail, MAX_DETAIL)})" if row.detail and samples == "text" else ""
    return f"{Privacy(samples).format_locator(row.locator)}{detail}"
