"""A raw file that cannot be read: it ends the run, or with `on_damage = "skip"` it is left out, and the lock says so.

A gzip file that is cut off, a Parquet file without its footer, an archive of another format: reading it is refused,
because the documents that come of it would depend on where it is cut. With `on_damage = "skip"` the whole file goes
onto the lock's list, including the records before the damage. The list is an input of the run like the raw files: with
that lock every machine leaves the same files out, and reports it. A file is read again when its bytes change (it is
another file then, and comes with a new generation), when its source's settings change, or when its line is taken out of
the lock.

A fault of the machine (no permission, a disk that fails) is never a reason to leave a file out: it ends the run, as
does a source none of whose files can be read.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from corpora.errors import InputError, UnreadableFile
from corpora.sources.bytes.objects import raw_path
from corpora.sources.contract import StatCache
from flows.recipes.lock import LeftOut, Lock, settings_digest
from flows.recipes.recipe import Recipe, SourceEntry
from flows.recipes.settings.privacy import DETAIL_CHARACTERS, TITLE_CHARACTERS, visible
from flows.run.faults.recipe_lock import change_lock


def leave_out(recipe: Recipe, lock: Lock, faults: Iterable[UnreadableFile], tell: Callable[[str], None]) -> Lock:
    """Leave these files out of a lock, also on disk. Raises InputError if one ends the run."""
    faults = list({(fault.source, fault.sha256): fault for fault in faults}.values())
    met = [entry_of(recipe, fault) for fault in faults]
    ending = [fault for fault in faults if _ends_run(recipe, lock, fault)]
    if ending:
        change_lock(recipe.lock_path, tell, lambda on_disk: replace(on_disk, unread=_united(on_disk.unread, met)))
        raise ending[0]
    after = replace(lock, left_out=_united(lock.left_out, met))
    refuse_empty_sources(recipe, after, met)
    change_lock(recipe.lock_path, tell, lambda on_disk: replace(on_disk, left_out=_united(on_disk.left_out, met)))
    for file in met:
        tell(described(file, recipe.privacy.samples))
    return after


def entry_of(recipe: Recipe, fault: UnreadableFile) -> LeftOut:
    """Return the lock's entry for a file that cannot be read. Raises InputError if the file has changed since."""
    if sha256_of_raw(fault.path) != fault.sha256:
        raise InputError(f"{fault.path} changed while it was read. Run again when nothing writes it any more.")
    return LeftOut(
        source=fault.source,
        name=fault.file,
        sha256=fault.sha256,
        settings=settings_digest(_entry(recipe, fault.source).source),
        why=visible(fault.reason.replace(fault.path, fault.file), DETAIL_CHARACTERS),
    )


def _ends_run(recipe: Recipe, lock: Lock, fault: UnreadableFile) -> bool:
    entry = _entry(recipe, fault.source)
    return entry.on_damage != "skip" or fault.sha256 in lock.left_out_of(entry.source)


def sha256_of_raw(path: str) -> str:
    """Return the digest of a raw file as it is now. Raises InputError if it cannot be read."""
    try:
        return StatCache().sha256(raw_path(path))[1]
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error


def refuse_empty_sources(recipe: Recipe, lock: Lock, met: Iterable[LeftOut]) -> None:
    """Stop if no file of a source is left. Raises InputError."""
    for name, file in {file.source: file for file in met}.items():
        left = lock.left_out_of(_entry(recipe, name).source)
        if all(raw.sha256 in left for files in lock.generations for raw in files.get(name, ())):
            raise InputError(
                f'Source {name!r}: none of its raw files can be read, so on_damage = "skip" would leave nothing of '
                f"it. The last: {file.name}: {file.why} Fix the source's settings or its files, or remove it."
            )


def left_out_lines(recipe: Recipe, lock: Lock) -> list[str]:
    """Return a line for each file that a run with this lock leaves out."""
    shown = {entry.source.name: lock.left_out_of(entry.source) for entry in recipe.sources}
    return [
        described(file, recipe.privacy.samples) for file in lock.left_out if file.sha256 in shown.get(file.source, {})
    ]


def described(file: LeftOut, privacy: str) -> str:
    """Describe a file that is left out, without its name if text may not be shown."""
    digest = f"sha256 {file.sha256[:12]}"
    if privacy != "text":
        return f"{file.source}: left out as unreadable: a file with the {digest}."
    return f"{file.source}: left out as unreadable: {visible(file.name, TITLE_CHARACTERS)} ({digest}): {file.why}"


def _entry(recipe: Recipe, source: str) -> SourceEntry:
    return next(entry for entry in recipe.sources if entry.source.name == source)


def _united(existing: Iterable[LeftOut], met: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    files = {(file.source, file.sha256, file.settings): file for file in (*existing, *met)}
    return tuple(files[key] for key in sorted(files))
