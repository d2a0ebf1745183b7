"""A raw file that cannot be read ends the run, or with `on_damage = "skip"` it is left out, and the run says so.

A gzip file that is cut off, a Parquet file without its footer, an archive of another format: reading it is refused,
because the documents that come of it would depend on where it is cut. With `on_damage = "skip"` the whole file goes
onto the lock's list, including the records before the damage. The list is an input of the run like the raw files: with
that lock every machine leaves the same files out, and reports it. A file is read again when its bytes change (it is
another file then, and comes with a new generation), when its source's settings change, or when its line is taken out of
the lock.

A run on a schedule has nobody to ask. It leaves unreadable files out whatever `on_damage` says, and goes on without the
damaged records of a source that has too many. If most of the new records are damaged, the files with damage are left
out whole, because what can be read of them is not to be trusted either. The lock says up to which generation that was
accepted, so that a run by hand does the same.

A file that is lost during the run (it is gone, closed to this user, written by another program, or on a disk that
fails) does not go onto that list, because its bytes are not the reason: it is taken out of its generation, and a later
run that can read it makes a new generation of it. A source ends the run if none of its files can be read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from corpora.errors import FileFault, InputError, LostFile
from corpora.generic_types import Tell
from corpora.judging.documents import count_damaged
from corpora.schema import DROPPED, iter_dropped
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.unchanged import format_change
from corpora.sources.contract import StatCache, to_printable
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_table
from flows.recipes.lock import LeftOutFile, Lock, compute_settings_digest, without_files
from flows.recipes.privacy import MAX_DETAIL_CHARACTERS, MAX_TITLE_CHARACTERS, to_one_line
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.faults.locks import change_lock
from flows.run.faults.rule_limits import RefusedSources
from flows.run.record.counts_text import format_count

MAX_SHOWN = 10  # files, each on a line
AS_UNREADABLE = "as unreadable"


def leave_out(recipe: Recipe, lock: Lock, faults: Iterable[FileFault], tell: Tell) -> Lock:
    """Add unreadable files to the lock file's list of raw files to skip, and return the new content of the lock file.

    Args:
        recipe: The recipe. Only files of sources with `on_damage = "skip"` can be skipped.
        lock: Content of the lock file at the start of the run.
        faults: The files that could not be read.
        tell: Called with a line about each file.

    Raises:
        FileFault: If a file's source does not skip damaged files, or the file is already skipped.
        InputError: If a source would have no file left, or the lock file cannot be written.
    """
    every = [*{(f.source, f.path): _to_current_fault(f) for fault in faults for f in (fault, *fault.others)}.values()]
    lost = {(f.source, f.file, f.sha256): f for f in every if isinstance(f, LostFile)}
    met = _merge_entries((), (build_lock_entry(recipe, f) for f in every if not isinstance(f, LostFile)))

    def without(before: Lock) -> Lock:
        left = without_files(before, lambda source, file: (source, file.name, file.sha256) in lost)
        return replace(left, left_out=_merge_entries(before.left_out, met))

    after = without(lock)
    ending = [fault for fault in every if _find_entry(recipe, fault.source).on_damage != "skip"]
    if ending or after == lock:
        raise (ending or every)[0]
    refuse_empty_sources(recipe, after, every)
    change_lock(recipe.lock_path, tell, without)
    gone = [build_lock_entry(recipe, fault) for fault in lost.values()]
    for line in (*_describe_files(recipe, met), *_describe_files(recipe, gone, "of this run")):
        tell(line)
    return after


def accept_damage(recipe: Recipe, lock: Lock, refused: RefusedSources, tell: Tell) -> Lock:
    """Accept the damaged records of a scheduled run, record this in the lock file, and return its new content.

    If most of a source's new records are damaged, its damaged files are skipped entirely.

    Args:
        recipe: The recipe.
        lock: Content of the lock file at the start of the run.
        refused: The error, which lists the sources that have too much damage.
        tell: Called with a line about each skipped file.

    Raises:
        RefusedSources: Raised with `refused` if the run is not scheduled, if records were dropped for a reason other
            than damage, or if a source would have no file left.
        InputError: If the lock file cannot be written.
    """
    if not recipe.is_scheduled or not refused.damaged:
        raise refused
    met = []
    for judged in refused.damaged:
        counts = count_damaged(judged.manifest, judged.entry.documents)
        rows = iter_dropped(read_table(Place(recipe.store), judged.manifest, "dropped", DROPPED.names))
        is_most = counts["damaged"] > counts["sound"]
        bad = {row.locator.sha256 for row in rows if row.reason == "damaged"} if is_most else ()
        of = f"{counts['damaged']:,} of {format_count(counts.total(), 'record')}"
        why = f"Most of what came with it is damaged: {of}."
        name, digest = judged.manifest.name, compute_settings_digest(_find_entry(recipe, judged.manifest.name).source)
        met += [
            LeftOutFile(source=name, name=file.name, sha256=file.sha256, settings=digest, why=why)
            for file in judged.files
            if file.sha256 in bad
        ]

    def accepting(before: Lock) -> Lock:
        return replace(before, left_out=_merge_entries(before.left_out, met), accepted=len(lock.generations))

    after = accepting(lock)
    if any(_is_empty(after, entry) and not _is_empty(lock, entry) for entry in recipe.sources):
        raise refused
    change_lock(recipe.lock_path, tell, accepting)
    for line in _describe_files(recipe, met):
        tell(line)
    return after


def _is_empty(lock: Lock, entry: SourceEntry) -> bool:
    """Return True if the lock file skips every raw file of a source.

    Args:
        lock: Content of the lock file.
        entry: The source.
    """
    left = lock.find_left_out(entry.source)
    return all(raw.sha256 in left for files in lock.generations for raw in files.get(entry.source.name, ()))


def build_lock_entry(recipe: Recipe, fault: FileFault) -> LeftOutFile:
    """Build the lock file's entry for a raw file that cannot be read.

    Args:
        recipe: The recipe. The source's settings in it become part of the entry.
        fault: The file, and why it cannot be read.
    """
    return LeftOutFile(
        source=fault.source,
        name=fault.file,
        sha256=fault.sha256,
        settings=compute_settings_digest(_find_entry(recipe, fault.source).source),
        why=_explain(fault),
    )


def _to_current_fault(fault: FileFault) -> FileFault:
    """Return the fault of a raw file, or a LostFile if the file has changed or disappeared since it was hashed.

    For a changed file, it is unknown which content was read.
    """
    try:
        if isinstance(fault, LostFile) or hash_raw_file(fault.path) == fault.sha256:
            return fault
        reason = format_change(parse_raw_path(fault.path))
    except InputError as error:
        reason = str(error)
    return LostFile(to_printable(reason), fault.source, fault.file, fault.sha256, fault.path)


def hash_raw_file(path: str) -> str:
    """Compute the sha256 of a raw file's current content. Raises InputError if the file cannot be read."""
    try:
        return StatCache().hash_file(parse_raw_path(path))[1]
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error


def refuse_empty_sources(recipe: Recipe, lock: Lock, faults: Iterable[FileFault]) -> None:
    """Check that each source with unreadable files also has a readable one.

    Args:
        recipe: The recipe.
        lock: Content of the lock file, including the files to skip.
        faults: The files that could not be read. Only their sources are checked.

    Raises:
        InputError: If a source has no readable file.
    """
    for name, fault in {fault.source: fault for fault in faults}.items():
        if _is_empty(lock, _find_entry(recipe, name)):
            raise InputError(
                f'Source {name!r}: none of its raw files can be read, so on_damage = "skip" would leave nothing of '
                f"it. The last: {fault.file}: {_explain(fault)} Fix the source's settings or its files, or remove it."
            )


def list_left_out(lock: Lock, documents: Iterable[Manifest]) -> list[LeftOutFile]:
    """List the unreadable files that a run skipped. Files that are gone are omitted.

    Args:
        lock: Content of the run's lock file.
        documents: Manifests of the parsed documents of all sources. Each lists the source's skipped files. A source
            without readable files has no manifest, so its skipped files are taken from `lock`.
    """
    documents = [manifest for manifest in documents if manifest.kind == "documents"]
    named = {
        (manifest.name, sha256): LeftOutFile(source=manifest.name, name=name, sha256=sha256, settings="", why=why)
        for manifest in documents
        for name, sha256, why in manifest.settings.get("left_out", ())
    }
    listed = {(file.source, file.sha256): file for file in lock.left_out}
    parsed = {(manifest.name, file.sha256) for manifest in documents for file in lock.find_raw_files(manifest)}
    places = lock.file_locations
    rest = {key: file for key, file in listed.items() if key in places.keys() - parsed}
    return [file for key, file in (named | rest).items() if key not in places or places[key][1]]


def describe_left_out(recipe: Recipe, lock: Lock) -> list[str]:
    """Describe, in a list of lines, the raw files that a run with this lock file skips as unreadable.

    Args:
        recipe: The recipe. It determines whether file names are shown.
        lock: Content of its lock file, with the files' current paths. Files that are gone are omitted.
    """
    shown = {entry.source.name: lock.find_left_out(entry.source) for entry in recipe.sources}
    here = {key for key, (_, path) in lock.file_locations.items() if path}
    files = [file for file in lock.left_out if (file.source, file.sha256) in here]
    return _describe_files(recipe, [file for file in files if file.sha256 in shown.get(file.source, {})])


def _describe_files(recipe: Recipe, files: Sequence[LeftOutFile], how: str = AS_UNREADABLE) -> list[str]:
    """Return a line for each of the first MAX_SHOWN files, and one line for all others.

    Args:
        recipe: The recipe. It determines whether file names are shown.
        files: The skipped files.
        how: Phrase to add to the lines, such as "as unreadable".
    """
    lines = [describe_file(file, recipe.privacy.samples, how) for file in files[:MAX_SHOWN]]
    more = format_count(len(files) - MAX_SHOWN, "more file", "more files")
    return [*lines, f"Left out {how}: {more}; the report lists them."] if files[MAX_SHOWN:] else lines


def describe_file(file: LeftOutFile, privacy: str, how: str = AS_UNREADABLE) -> str:
    """Describe a skipped raw file in one line. The file name is omitted unless `privacy` is "text".

    Args:
        file: The file's entry in the lock file.
        privacy: The recipe's `privacy.samples`.
        how: Phrase to add to the line, such as "as unreadable".
    """
    digest = f"sha256 {file.sha256[:12]}"
    if privacy != "text":
        return f"{file.source}: left out {how}: a file with the {digest}."
    return f"{file.source}: left out {how}: {to_one_line(file.name, MAX_TITLE_CHARACTERS)} ({digest}): {file.why}"


def _explain(fault: FileFault) -> str:
    return to_one_line(fault.reason.replace(to_printable(fault.path), fault.file), MAX_DETAIL_CHARACTERS)


def _find_entry(recipe: Recipe, source: str) -> SourceEntry:
    return next(entry for entry in recipe.sources if entry.source.name == source)


def _merge_entries(existing: Iterable[LeftOutFile], met: Iterable[LeftOutFile]) -> tuple[LeftOutFile, ...]:
    files = {(file.source, file.sha256, file.settings): file for file in (*existing, *met)}
    return tuple(files[key] for key in sorted(files))
