"""The documents stage: one source's raw files in, clean and filtered documents out.

    records ─ parse ─► prose ─ steps (`corpora.judging.batches`) ─► documents
                 └───────────────┴─► dropped, each with step and reason

Each source and generation is parsed independently of all others, so changing a later setting does not parse anything
again. records = documents + dropped, which are counted independently: by the source's tally, as rows written, and as
drops by reason. Memory: one batch of about four million characters and raw bytes, and one record at a time.
"""

import errno
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from shlex import quote
from types import MappingProxyType
from unicodedata import unidata_version

from corpora.errors import FileFault, InputError, LostFile, UnreadableFile, raise_all
from corpora.generic_types import Json
from corpora.judging.batches import judge_watched
from corpora.judging.inputs import NO_INPUTS, JudgingInputs
from corpora.judging.settings import DocumentsSettings
from corpora.judging.source_statistics import read_statistics
from corpora.schema import DOCUMENTS, DROPPED, iter_dropped
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.unchanged import format_change, read_state
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally, group_slices, to_printable
from corpora.sources.registry import find_distribution, is_kind
from corpora.sources.remarks import REMARK_SCHEMA, REMARK_TABLE
from corpora.store.current_record import report_record
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Parent, Part, compute_fingerprint
from corpora.store.part_writer import PartWriter
from corpora.store.places.address import is_object_address
from corpora.store.places.place import Place
from corpora.store.settings import to_settings_json
from corpora.store.stage import PartPlan, Stage, read_library_versions
from corpora.store.tables import read_table

BUILD_VERSION = 7
BATCH_BYTES = 4_000_000
BATCH_ROWS = 4_096
MIN_DOCUMENTS_TO_STOP = 10  # documents of a source: fewer say too little of a rule
WRONG_ENCODING = re.compile(r"(field .* is )?not \S+ at byte \d")  # why a record is damaged
MAJORITY_SHARE = 0.5  # of the records of a source: a bound from here on is for a source of which most must be readable
SMALL_SOURCE_SHARE = 0.5  # of a source below `rule_share_from`
LOST_FILE_ERRORS = frozenset(  # errors that opening or reading one file may end with, whatever other files do
    (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EIO, errno.ESTALE, errno.ENXIO)
)
NOTHING_LEFT_OUT: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsJob:
    """The inputs for building one part (file set) of a source's documents.

    source:     source that parses the raw files
    settings:   settings of the documents stage
    slices:     byte ranges of raw files to read
    inputs:     evaluation sets and questions
    statistics: folder and part of the source's `fits` stage; None if the settings do not need it
    quarantine: locations (file, stream, offset) of records to skip
    """

    source: Source
    settings: DocumentsSettings
    slices: tuple[Slice, ...]
    inputs: JudgingInputs
    statistics: tuple[str, Part] | None = None
    quarantine: tuple[str, ...] = ()


def plan_documents(
    source: Source,
    files: Sequence[RawFile],
    settings: DocumentsSettings,
    with_parts: bool = True,
    quarantine: Collection[str] = (),
    inputs: JudgingInputs = NO_INPUTS,
    statistics: Manifest | None = None,
    left_out: Mapping[str, str] = NOTHING_LEFT_OUT,
) -> Stage:
    """Plan the stage that converts a source's raw files to documents. Only the indexes of the files are read.

    Args:
        source: The source that parses the files.
        files: The raw files.
        settings: Settings of the documents stage.
        with_parts: If False, the stage has its fingerprint but no parts, and no file is opened.
        quarantine: Locations of records that must not be read, from `quarantine_place`.
        inputs: Evaluation sets and questions, from `read_inputs`.
        statistics: Manifest of the source's `fits` stage; required if `settings.needs_statistics`.
        left_out: The reason for skipping a raw file, by the file's sha256. These files are not read.

    Raises:
        FileFault: If some files cannot be split into slices. It names all of them.
    """
    quarantined = find_quarantined_places(quarantine, files)
    read = [file for file in files if file.sha256 not in left_out]
    slices = cut_files(source, read) if with_parts else []
    left_out_files = [[file.name, file.sha256, left_out[file.sha256]] for file in files if file.sha256 in left_out]
    determining = collect_settings(source, settings, inputs, statistics)
    job = DocumentsJob(
        source=source,
        settings=settings,
        slices=(),
        inputs=inputs,
        statistics=None if statistics is None else (statistics.stage_folder, statistics.parts[0]),
    )
    return Stage(
        kind="documents",
        name=source.name,
        build_version=BUILD_VERSION,
        settings={
            **determining,
            **({"quarantine": quarantined} if quarantined else {}),
            **({"left_out": left_out_files} if left_out_files else {}),
        },
        part_settings={key: value for key, value in determining.items() if key != "part_bytes"},
        parents=(build_raw_parent(files), *([statistics.as_parent()] if statistics is not None else [])),
        libraries=read_document_libraries(source, files),
        parts=_plan_parts(job, slices, quarantined),
        build=build_documents_part,
        facts={"raw files read": len(read)} if left_out_files else {},
    )


def collect_settings(
    source: Source, settings: DocumentsSettings, inputs: JudgingInputs, statistics: Manifest | None = None
) -> dict[str, Json]:
    """Return the settings and versions that, besides the records, determine a source's documents.

    The returned dictionary is part of the stage's fingerprint. The key "source" contains the kind, version, name and
    settings of the source. "fit" is the content of the statistics, and "evaluation_items" and "questions" are digests
    of the inputs, if there are any. The other keys are those of `DocumentsSettings`.

    Args:
        source: The source that parses the files.
        settings: Settings of the documents stage.
        inputs: Evaluation sets and questions, from `read_inputs`.
        statistics: Manifest of the source's `fits` stage, or None if the settings do not need it.
    """
    described: dict[str, Json] = {"kind": source.kind, "version": source.version, "name": source.name}
    package = find_distribution(source.kind) if is_kind(source.kind) else None
    if package is not None:
        described["package"] = {**package}
    given: dict[str, Json] = {}
    if inputs.evaluation is not None:
        given["evaluation_items"] = inputs.evaluation.digest
    if inputs.questions is not None:
        given["questions"] = inputs.questions.digest
    if statistics is not None:
        given["fit"] = str(statistics.content)
    return {"source": {**described, **source.settings()}, **to_settings_json(settings), **given}


def read_document_libraries(source: Source, files: Sequence[RawFile]) -> dict[str, str]:
    """Return the version of each library that affects the documents produced from the given files, by its name.

    "unicode" is the version of Python's Unicode tables.
    """
    list_for_files: Callable[[Sequence[RawFile]], tuple[str, ...]] = getattr(source, "libraries_of", lambda files: ())
    return read_library_versions("ftfy", "pycld2", *source.libraries, *list_for_files(files)) | {
        "unicode": unidata_version
    }


def _plan_parts(job: DocumentsJob, slices: Sequence[Slice], quarantined: Sequence[str]) -> tuple[PartPlan, ...]:
    """Plan the parts (file sets) that read all slices in order. Each part reads about `part_bytes` bytes.

    Args:
        job: The job of all parts, without slices.
        slices: Byte ranges of raw files.
        quarantined: Locations of the records in quarantine.
    """
    groups = group_slices(slices, job.settings.part_bytes)
    return tuple(
        _plan_part(f"{number:05d}", replace(job, slices=group), quarantined) for number, group in enumerate(groups)
    )


def _plan_part(name: str, job: DocumentsJob, quarantined: Sequence[str]) -> PartPlan:
    """Plan one part (file set), including the quarantined records that it would otherwise read.

    Args:
        name: Name of the part.
        job: The job of the part, with its slices.
        quarantined: Locations of all records in quarantine. Those in the slices are included in the plan.
    """
    here = find_places_in_slices(quarantined, job.slices)
    key: list[Json] = [piece.to_json() for piece in job.slices]
    return PartPlan(
        name=name, key=[*key, {"quarantine": list(here)}] if here else key, job=replace(job, quarantine=here)
    )


def find_quarantined_places(quarantine: Collection[str], files: Sequence[RawFile]) -> list[str]:
    """Return, sorted, the locations of those quarantined records (records to skip) that are in the given files.

    A location is a string of the file's SHA-256, the stream and the offset, separated by spaces.
    """
    digests = {file.sha256 for file in files}
    return sorted(place for place in quarantine if place.split(" ")[0] in digests)


def find_places_in_slices(places: Sequence[str], slices: Sequence[Slice]) -> tuple[str, ...]:
    """Return the locations of those records that are in one of the slices, in the given order.

    A location is a string of the file's SHA-256, the stream and the offset, separated by spaces.
    """
    return tuple(place for place in places if any(_is_in_slice(place, piece) for piece in slices))


def _is_in_slice(place: str, piece: Slice) -> bool:
    """Return True if a slice (byte range of a raw file) contains the record at a location.

    The location is a string of the file's SHA-256, the stream and the offset, separated by spaces.
    """
    digest, stream, offset = place.split(" ")
    if digest != piece.file.sha256:
        return False
    at = int(stream if int(stream) >= 0 else offset)
    # A place in what a packed file holds may be after the end of the file itself, which is then read as a whole.
    return piece.start <= at < piece.stop or (piece.start, piece.stop) == (0, piece.file.size_bytes)


def build_raw_parent(files: Sequence[RawFile]) -> Parent:
    """Build a single parent that represents all of a stage's raw files, from their names and digests."""
    digest = compute_fingerprint(files=[[file.name, file.sha256] for file in files])
    return Parent(role="raw", name=f"{len(files)} files", fingerprint=digest)


def build_documents_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Read the slices of one part and write its documents and dropped rows.

    This is the documents stage's build function.

    Args:
        writer: Writes the tables "documents" and "dropped".
        plan: The plan of the part; its job is a `DocumentsJob`.

    Returns:
        The counts of the part. Each record is counted as a document or as dropped, with its reason.

    Raises:
        FileFault: If raw files cannot be read. It names all of them.
        InputError: If a step from another package returns an invalid result.
    """
    job: DocumentsJob = plan.job
    tally, drops, figures = Tally(job.quarantine), Counter[str](), Counter[str]()
    inputs, kept = read_job_inputs(writer.place, job), 0
    with writer.create_table("documents", DOCUMENTS) as documents, writer.create_table("dropped", DROPPED) as dropped:
        for batch in iter_batches(read_slices(job.source, job.slices, tally)):
            judged = judge_watched(batch, job.source.name, job.settings, inputs)
            documents.write(judged.documents)
            dropped.write(judged.dropped)
            kept += judged.documents.num_rows
            drops.update(judged.reasons)
            figures.update(judged.figures)
            figures["damaged records"] += sum(bool(record.drop and record.drop.damaged) for record in batch)
    if len(remarks := tally.unknown_templates.to_record_batch()):
        with writer.create_table(REMARK_TABLE, REMARK_SCHEMA) as sink:
            sink.write(remarks)
    outcomes = {"documents": kept, **{f"dropped: {reason}": count for reason, count in drops.items()}}
    account = Account(unit="records", total=tally.records, outcomes=outcomes)
    return Ledger(accounts=(account,), figures=figures)


def read_job_inputs(place: Place, job: DocumentsJob) -> JudgingInputs:
    """Return the inputs for judging a part's documents, including the source's statistics read from the store.

    Args:
        place: The store.
        job: The task. Its inputs are returned unchanged if it names no statistics.

    Raises:
        Damaged: If the statistics are missing or damaged.
    """
    if job.statistics is None:
        return job.inputs
    return replace(job.inputs, statistics=read_statistics(place, *job.statistics))


def read_slices(source: Source, slices: Iterable[Slice], tally: Tally) -> Iterator[Record]:
    """Yield the records of slices in order. A quarantined record has no text and is marked as dropped.

    Args:
        source: The source that parses the files.
        slices: Byte ranges of raw files.
        tally: Counts the records, and knows which are in quarantine.

    Raises:
        FileFault: After all slices were tried, if some files cannot be read; it names all of them. After the first
            failure no more records are yielded.
    """
    faults: dict[str, FileFault] = {}
    for piece in slices:
        if piece.file.path in faults:
            continue
        try:
            with name_file_in_errors(source, piece.file):
                for record in source.records(piece, tally):
                    report_record("")
                    if not faults:
                        yield tally.apply_quarantine(record)
                _check_unchanged(source, piece.file)
        except FileFault as fault:
            faults[piece.file.path] = fault
    report_record("")
    raise_all([*faults.values()])


def cut_files(source: Source, files: Iterable[RawFile]) -> list[Slice]:
    """Split files into slices (byte ranges that are read independently), in order.

    Raises:
        FileFault: After all files were tried, if some cannot be split. It names all of them.
    """
    slices: list[Slice] = []
    faults: list[FileFault] = []
    for file in files:
        try:
            with name_file_in_errors(source, file):
                slices += source.slices(file)
        except FileFault as fault:
            faults.append(fault)
    raise_all(faults)
    return slices


@contextmanager
def name_file_in_errors(source: Source, file: RawFile) -> Iterator[None]:
    """Add the name of the raw file being read to errors raised in this block (a context manager).

    Raises:
        UnreadableFile: If the error is due to the content of the file.
        LostFile: If the file is missing, its permissions deny access, or the disk fails. Other operating-system errors
            and object-store errors are raised unchanged.
    """
    named = (source.name, file.name, file.sha256, file.path)
    try:
        yield
    except FileFault:
        raise
    except (InputError, OSError) as error:
        of_machine = (
            each for each in (error, *_iter_causes(error)) if isinstance(each, OSError) and each.errno is not None
        )
        cause = next(of_machine, None)
        if cause is None and isinstance(error, InputError):
            raise UnreadableFile(to_printable(str(error)), *named) from error
        if cause is None or cause.errno not in LOST_FILE_ERRORS or is_object_address(file.path):
            raise
        message = f"Cannot read {file.path}: {cause.strerror}. Check the path and its permissions."
        raise LostFile(to_printable(str(error) if isinstance(error, InputError) else message), *named) from error


def _check_unchanged(source: Source, file: RawFile) -> None:
    """Check that a file was not changed after it was hashed.

    On the machine that hashed the file, its size, time and inode are compared, and elsewhere its size only. Pipes and
    object-store objects are not checked.

    Raises:
        LostFile: If the file was changed.
    """
    path = parse_raw_path(file.path)
    if not (now := read_state(path)):
        return
    same_machine = file.state.split(" ")[0] == now.split(" ")[0]
    if now != file.state if same_machine else path.stat().st_size != file.size_bytes:
        raise LostFile(format_change(path), source.name, file.name, file.sha256, file.path)


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the chain of an error's causes, starting with the direct cause."""
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__


def iter_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Group records into lists of at most BATCH_ROWS records and about BATCH_BYTES characters of text and raw bytes."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.text) + len(record.raw)
        if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def count_damaged(manifest: Manifest, settings: DocumentsSettings) -> Counter[str]:
    """Count the damaged and undamaged records of a documents stage, under the keys `damaged` and `sound`.

    Args:
        manifest: The finished documents stage. Its account of records is read.
        settings: If its `max_damaged_share` is at least 0.5, each raw file that was left out counts as one damaged
            record.
    """
    ledger, left_out = manifest.ledger, manifest.settings.get("left_out")
    damaged = ledger.figures.get("damaged records", 0)
    files = len(left_out) if settings.max_damaged_share >= MAJORITY_SHARE and isinstance(left_out, Sized) else 0
    return Counter(damaged=damaged + files, sound=ledger.find_account("records").total - damaged)


def pool_counts(counts: Sequence[Counter[str]], min_total: int) -> Counter[str]:
    """Add up the most recent counters, as many as are needed for a total of at least `min_total`.

    The last counter is always included. If the total of all counters is smaller, all are added up.

    >>> pool_counts([Counter(damaged=5), Counter(sound=9), Counter(damaged=1)], 10)
    Counter({'sound': 9, 'damaged': 1})
    """
    together = Counter[str]()
    for each in reversed(counts):
        together += each
        if together.total() >= min_total:
            break
    return together


def check_damage(
    place: Place, manifest: Manifest, settings: DocumentsSettings, earlier: Sequence[Counter[str]] = ()
) -> None:
    """Check that the share of a source's damaged records does not exceed `max_damaged_share`.

    If this generation has fewer than `rule_share_from` records, they are pooled with those of earlier generations (runs
    that added raw files). An error is then raised only if both shares, pooled and unpooled, exceed the limit.

    Args:
        place: The store.
        manifest: Manifest of this generation's documents stage.
        settings: Settings of this stage.
        earlier: Counts of the earlier generations, oldest first, as `count_damaged` returns them.

    Raises:
        InputError: If the share exceeds the limit. The message includes the first damage.
    """
    newest = count_damaged(manifest, settings)
    together = pool_counts([*earlier, newest], settings.rule_share_from)
    damaged, total = together["damaged"], together.total()
    if all(counts["damaged"] > settings.max_damaged_share * counts.total() for counts in (newest, together)):
        rows = iter_dropped(read_table(place, manifest, "dropped", DROPPED.names))
        detail = next((row.detail for row in rows if row.reason == "damaged" and row.detail), "")
        remedy = "Fix the source's settings"
        if WRONG_ENCODING.match(detail):
            remedy = f'Say which encoding the files have, as in source.{manifest.name}.encoding = "shift_jis"'
        raise InputError(
            f"Source {manifest.name!r}: {damaged} of {total} records are damaged, more than documents."
            f"max_damaged_share = {settings.max_damaged_share} allows{f' (the first: {detail})' if detail else ''}. "
            f"{remedy}, get the raw files again or take them away, or raise the bound; "
            f"`cloze inspect {quote(place.to_address(manifest.folder))}` shows the damaged records."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOverLimit:
    """A rule that dropped more of a source's documents than `max_rule_share` allows.

    `step` and `reason` identify the rule as in the dropped rows. `dropped` and `documents` are counts, and `bound` is
    the allowed share. `stops` is False if the source is so small that the user is only warned and the run continues.
    """

    source: str
    step: str
    reason: str
    dropped: int
    documents: int
    bound: float
    stops: bool

    def __str__(self) -> str:
        share = f"{self.dropped:,} of {self.documents:,} documents ({self.dropped / self.documents:.0%})"
        return f"Source {self.source!r}: {self.step}: {self.reason} drops {share}"


def find_rules_over_limit(source: str, outcomes: Mapping[str, int], settings: DocumentsSettings) -> list[RuleOverLimit]:
    """Find the rules and added steps that dropped a larger share of a source's parsed records than `max_rule_share`.

    Parsing and language are not checked: archives contain much besides pages, and crawls contain all languages.

    Args:
        source: Name of the source, for the result.
        outcomes: Number of records by outcome ("documents" or "dropped: STEP: REASON"), as in the ledger.
        settings: Settings of the documents stage.

    Returns:
        The rules, in the order of `outcomes`; empty if none dropped too many.
    """
    parsed = sum(count for outcome, count in outcomes.items() if not outcome.startswith("dropped: parse:"))
    asked = ("rules", *(entry.step.kind for entry in settings.steps))
    rules = []
    for outcome, count in outcomes.items():
        _, step, reason = [*outcome.split(": ", 2), "", ""][:3]
        if step in asked and count > settings.max_rule_share * parsed:
            rule = RuleOverLimit(
                source=source,
                step=step,
                reason=reason,
                dropped=count,
                documents=parsed,
                bound=settings.max_rule_share,
                stops=count > compute_max_dropped(parsed, settings),
            )
            rules.append(rule)
    return rules


def compute_max_dropped(documents: int, settings: DocumentsSettings) -> float:
    """Compute the largest number of a source's documents that a rule may drop without stopping the run.

    >>> [compute_max_dropped(number, DocumentsSettings()) for number in (9, 10, 50, 100, 10_000_000)]
    [9, 5.0, 25.0, 20.0, 2000000.0]
    """
    if documents >= settings.rule_share_from:
        return settings.max_rule_share * documents
    few = documents < MIN_DOCUMENTS_TO_STOP
    return documents if few else max(settings.max_rule_share, SMALL_SOURCE_SHARE) * documents
