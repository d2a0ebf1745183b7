"""A raw file that cannot be read: it ends the run, or with `on_damage = "skip"` it is left out, and the run says so.

A gzip file that is cut off, a Parquet file without its footer, an archive of another format: reading it is refused,
because the documents that come of it would depend on where it is cut. With `on_damage = "skip"` the whole file goes
onto the lock's list, including the records before the damage. The list is an input of the run like the raw files: with
that lock every machine leaves the same files out, and reports it. A file is read again when its bytes change (it is
another file then, and comes with a new generation), when its source's settings change, or when its line is taken out of
the lock.

A file that is lost during the run (it is gone, closed to this user, written by another program, or on a disk that
fails) does not go onto that list, because its bytes are not the reason: it is taken out of its generation, and a later
run that can read it makes a new generation of it. A source none of whose files can be read ends the run.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from corpora.errors import FileFault, InputError, LostFile
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.unchanged import changed_words
from corpora.sources.contract import StatCache, readable
from flows.recipes.lock import LeftOut, Lock, settings_digest, without_files
from flows.recipes.recipe import Recipe, SourceEntry
from flows.recipes.settings.privacy import DETAIL_CHARACTERS, TITLE_CHARACTERS, visible
from flows.run.faults.recipe_lock import change_lock
from flows.run.record.counts_text import counted

SHOWN = 10  # files, each on a line


def leave_out(recipe: Recipe, lock: Lock, faults: Iterable[FileFault], tell: Callable[[str], None]) -> Lock:
    """Leave these files out of a lock, also on disk. Raises InputError if one ends the run."""
    every = [*{(f.source, f.path): _as_it_is(f) for fault in faults for f in (fault, *fault.others)}.values()]
    lost = {(f.source, f.file, f.sha256): f for f in every if isinstance(f, LostFile)}
    met = _united((), (entry_of(recipe, f) for f in every if not isinstance(f, LostFile)))

    def without(before: Lock) -> Lock:
        left = without_files(before, lambda source, file: (source, file.name, file.sha256) in lost)
        return replace(left, left_out=_united(before.left_out, met))

    after = without(lock)
    ending = [fault for fault in every if _entry(recipe, fault.source).on_damage != "skip"]
    if ending or after == lock:
        change_lock(recipe.lock_path, tell, lambda on_disk: replace(on_disk, unread=_united(on_disk.unread, met)))
        raise (ending or every)[0]
    refuse_empty_sources(recipe, after, every)
    change_lock(recipe.lock_path, tell, without)
    for line in (*_left_out_lines(recipe, met), *_lost_lines(recipe, [*lost.values()])):
        tell(line)
    return after


def entry_of(recipe: Recipe, fault: FileFault) -> LeftOut:
    """Return the lock's entry for a file that cannot be read."""
    return LeftOut(
        source=fault.source,
        name=fault.file,
        sha256=fault.sha256,
        settings=settings_digest(_entry(recipe, fault.source).source),
        why=_why(fault),
    )


def _as_it_is(fault: FileFault) -> FileFault:
    """Return a fault, as one of a lost file if the file has other bytes by now: those that were read are unknown."""
    try:
        if isinstance(fault, LostFile) or sha256_of_raw(fault.path) == fault.sha256:
            return fault
        reason = changed_words(raw_path(fault.path))
    except InputError as error:
        reason = str(error)
    return LostFile(readable(reason), fault.source, fault.file, fault.sha256, fault.path)


def sha256_of_raw(path: str) -> str:
    """Return the digest of a raw file as it is now. Raises InputError if it cannot be read."""
    try:
        return StatCache().sha256(raw_path(path))[1]
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error


def refuse_empty_sources(recipe: Recipe, lock: Lock, faults: Iterable[FileFault]) -> None:
    """Stop if no file of a source is left. Raises InputError."""
    for name, fault in {fault.source: fault for fault in faults}.items():
        left = lock.left_out_of(_entry(recipe, name).source)
        if all(raw.sha256 in left for files in lock.generations for raw in files.get(name, ())):
            raise InputError(
                f'Source {name!r}: none of its raw files can be read, so on_damage = "skip" would leave nothing of '
                f"it. The last: {fault.file}: {_why(fault)} Fix the source's settings or its files, or remove it."
            )


def left_out_lines(recipe: Recipe, lock: Lock) -> list[str]:
    """Return lines about the files that a run with this lock leaves out."""
    shown = {entry.source.name: lock.left_out_of(entry.source) for entry in recipe.sources}
    return _left_out_lines(recipe, [file for file in lock.left_out if file.sha256 in shown.get(file.source, {})])


def _left_out_lines(recipe: Recipe, files: Sequence[LeftOut]) -> list[str]:
    """Return a line for each of the first files, and one for the others."""
    lines = [described(file, recipe.privacy.samples) for file in files[:SHOWN]]
    more = counted(len(files) - SHOWN, "more file", "more files")
    return [*lines, f"Left out as unreadable: {more}; the report and the lock list them."] if files[SHOWN:] else lines


def described(file: LeftOut, privacy: str) -> str:
    """Describe a file that is left out, without its name if text may not be shown."""
    digest = f"sha256 {file.sha256[:12]}"
    if privacy != "text":
        return f"{file.source}: left out as unreadable: a file with the {digest}."
    return f"{file.source}: left out as unreadable: {visible(file.name, TITLE_CHARACTERS)} ({digest}): {file.why}"


def _lost_lines(recipe: Recipe, lost: Sequence[FileFault]) -> list[str]:
    """Return a line for each of the first files that were lost during a run, and one for the others."""
    lines = [f"{fault.source}: left out of this run: a file that was lost." for fault in lost[:SHOWN]]
    if recipe.privacy.samples == "text":
        named = [(fault, visible(fault.file, TITLE_CHARACTERS)) for fault in lost[:SHOWN]]
        lines = [f"{fault.source}: left out of this run: {name}: {_why(fault)}" for fault, name in named]
    more = counted(len(lost) - SHOWN, "more file", "more files")
    return [*lines, f"Left out of this run: {more}."] if lost[SHOWN:] else lines


def _why(fault: FileFault) -> str:
    return visible(fault.reason.replace(readable(fault.path), fault.file), DETAIL_CHARACTERS)


def _entry(recipe: Recipe, source: str) -> SourceEntry:
    return next(entry for entry in recipe.sources if entry.source.name == source)


def _united(existing: Iterable[LeftOut], met: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    files = {(file.source, file.sha256, file.settings): file for file in (*existing, *met)}
    return tuple(files[key] for key in sorted(files))
