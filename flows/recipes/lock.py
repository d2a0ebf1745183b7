"""recipe.lock: the raw files that a recipe stands for, so that the same recipe means the same inputs tomorrow.

The lock is a file next to the recipe. It lists raw files by content, in generations: a generation holds the raw files
that one run found new. Files of older generations keep the name under which they were first found, wherever they are
now. Commit the lock together with the recipe: another machine then replays the same generations.

A lock ends with a digest of itself, so that a flipped bit is noticed. A lock without a digest, because a person edited
it and removed the digest, is read as it is; the next run adds a new digest.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import compress, takewhile
from pathlib import Path
from shlex import quote
from typing import Any

from corpora.acquire.fetch_table import find_folder
from corpora.errors import InputError
from corpora.judging.documents import build_raw_parent
from corpora.sources.bytes.objects import WILDCARDS, ObjectPath, parse_raw_path
from corpora.sources.contract import RawFile, Source, StatCache, hash_files, split_glob, to_printable
from corpora.sources.files.guessing import TextColumns
from corpora.sources.passed_over import (
    FileCounts,
    FolderPredicate,
    classify_error,
    count_files,
    exclude_nothing,
    to_absolute,
)
from corpora.store.damage import Damaged, find_digest, seal, unseal
from corpora.store.manifest import Manifest, compute_fingerprint
from corpora.store.places.files import replace_file
from corpora.store.places.pipes import open_file
from corpora.store.settings import bind_settings
from flows.recipes.guessed_fields import (
    TABLE_WITHOUT_TEXT,
    FittedDefaults,
    GuessedNames,
    find_files_without_text,
    guess_text_fields,
    refuse_source_without_text,
)
from flows.recipes.recipe import Recipe, SourceEntry
from flows.recipes.store_folders import is_run_output, is_store, refuse_store
from trainer.start_weights import StartModel

VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutFile:
    """A raw file that is skipped because it could not be read.

    Attributes:
        source: Name of the source that found the file.
        name: Name of the file.
        settings: Digest of the source's settings when reading failed. Once the settings change, reading is tried again.
        why: Why the file could not be read.
    """

    source: str
    name: str
    sha256: str
    settings: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The contents of a lock file, which records the raw files that runs of a recipe use.

    Attributes:
        generations: The generations (the raw files that one run added) in order. Each has a list of files by source
            name.
        quarantine: Records to skip because they crashed the process that read them.
        left_out: Raw files to skip because they could not be read.
        pending: How many of the newest generations no run has completed. No stored result depends on them yet, so
            replaced or removed files are dropped from them.
        accepted: One-based number of the last generation that a scheduled run accepted although too many of its files
            or records were damaged.
        vocabulary_generation: One-based number of the generation that the vocabulary is trained on.
        fetched: What was fetched for each source with a `fetch` table, such as a revision, by source name.
        guessed: The guessed names of the text field, by source name, for the sources without one in the recipe.
        fitted: The defaults that were chosen for a folder without a recipe.
        chosen: The `--set` settings of a folder without a recipe.
        start: The model that training starts from. It is looked up in each run, and not written to the file.
        teacher: The teacher model for distillation. It is looked up in each run, and not written to the file.
    """

    generations: tuple[Mapping[str, tuple[RawFile, ...]], ...] = ()
    quarantine: tuple[str, ...] = ()
    left_out: tuple[LeftOutFile, ...] = ()
    pending: int = 0
    accepted: int = 0
    vocabulary_generation: int = 1
    fetched: Mapping[str, Any] = field(default_factory=dict)
    guessed: GuessedNames = field(default_factory=dict)
    fitted: FittedDefaults | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    start: StartModel | None = None
    teacher: StartModel | None = None

    @property
    def raw_bytes(self) -> int:
        """Total size in bytes of all raw files in the lock."""
        files = (file for generation in self.generations for some in generation.values() for file in some)
        return sum(file.size_bytes for file in files)

    @property
    def file_locations(self) -> dict[tuple[str, str], tuple[int, str]]:
        """A (generation number, path) pair for each raw file, by (source name, sha256).

        The path of a file that is gone is "". A generation is the raw files that one run added; its number is
        one-based.
        """
        return {
            (name, file.sha256): (number, file.path)
            for number, generation in enumerate(self.generations, 1)
            for name, files in generation.items()
            for file in files
        }

    def to_bytes(self) -> bytes:
        """Serialize the lock as JSON. The last field is a digest of the JSON before it.

        Paths of raw files are not included.
        """
        stored = replace(self, generations=(), start=None, teacher=None)
        fields = {name: value for name, value in asdict(stored).items() if value}
        generations = [
            {source: [file.to_json() for file in files] for source, files in sorted(generation.items())}
            for generation in self.generations
        ]
        data = {"version": VERSION, **fields, "generations": generations}
        return seal(json.dumps(data, indent=1, ensure_ascii=False).encode())

    def find_left_out(self, source: Source) -> dict[str, str]:
        """Return the raw files that a source skips under its current settings, as {sha256: reason}."""
        now = compute_settings_digest(source) if self.left_out else ""
        return {f.sha256: f.why for f in self.left_out if (f.source, f.settings) == (source.name, now)}

    def find_raw_files(self, documents: Manifest) -> tuple[RawFile, ...]:
        """Return the raw files that stored documents were parsed from, or () if they are not in the lock.

        Args:
            documents: Manifest (description) of a source's parsed documents.
        """
        of_source = (generation.get(documents.name, ()) for generation in self.generations)
        read = (files for files in of_source if files and build_raw_parent(files) in documents.parents)
        return tuple(file for files in read for file in files)

    def with_paths(self, paths: Mapping[str, str]) -> "Lock":
        """Return a copy of the lock with new paths for its raw files.

        Args:
            paths: Paths by sha256. If a file's sha256 is missing, its path becomes "".
        """
        generations = tuple(
            {
                name: _with_paths(files, {sha256: (path, "") for sha256, path in paths.items()})
                for name, files in each.items()
            }
            for each in self.generations
        )
        return replace(self, generations=generations)

    @staticmethod
    def from_bytes(data: bytes, where: Path) -> "Lock":
        """Parse a lock that `to_bytes` serialized.

        Args:
            data: Content of the lock file.
            where: Path of the lock file, for messages.

        Raises:
            InputError: If the data has another format, or does not match its digest.
        """
        try:
            lock = _from_json(unseal(data, str(where)) if find_digest(data) else json.loads(data))
        except Damaged as fault:
            raise InputError(
                f"{where} is not as it was written: {fault.what}. Restore it from version control; or, if it was "
                'edited on purpose, make its last field "digest": "", and the next run seals it again.'
            ) from fault
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{where} is not a lock that this program can read ({error}). Restore it, or delete it to start again "
                "with one generation of all raw files."
            ) from error
        return lock


def _from_json(fields: dict[str, Any]) -> Lock:
    """Build a lock from the object that was parsed from its JSON.

    The object is modified: keys are removed from it as they are read.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: If the object is malformed; ValueError is also raised for
            another version of the format.
    """
    if fields.pop("version") != VERSION:
        raise ValueError(f"its format is not {VERSION}")
    if fields.pop("digest", ""):
        raise ValueError("it does not end with its digest")
    if fields.pop("unread", ()):  # of an older version: files that ended a run
        fields["pending"] = 1
    generations = tuple(
        {
            source: tuple(bind_settings(RawFile, {**file, "path": ""}, source) for file in files)
            for source, files in each.items()
        }
        for each in fields.pop("generations")
    )
    lock = replace(bind_settings(Lock, fields, "it"), generations=generations)
    if not 0 <= lock.pending <= len(generations) >= lock.accepted >= 0:
        raise ValueError(f"pending = {lock.pending}, accepted = {lock.accepted} are not of its {len(generations)}")
    if not 1 <= lock.vocabulary_generation <= max(1, len(generations)):
        raise ValueError(f"vocabulary_generation = {lock.vocabulary_generation} is none of its {len(generations)}")
    return lock


def compute_settings_digest(source: Source) -> str:
    """Compute a digest of everything that affects how a source reads a file: its kind, version and settings.

    The digest has 24 hexadecimal digits.
    """
    return compute_fingerprint(kind=source.kind, version=source.version, settings=source.settings())


def read_lock(path: Path | None) -> Lock:
    """Read a lock file. Return an empty lock if the file does not exist or `path` is None.

    Raises:
        InputError: If the file is damaged or is not a lock.
    """
    if path is None or not path.exists():
        return Lock()
    with open_file(path) as file:
        return Lock.from_bytes(file.read(), path)


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock file atomically, so that readers never see half of it.

    Args:
        path: Path of the lock file.
        lock: The new content.

    Raises:
        InputError: If the file cannot be written.
    """
    try:
        with replace_file(path, is_only_writer=True) as new:
            new.write_bytes(lock.to_bytes())
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror}. The lock is kept next to its recipe: copy the recipe to a "
            "folder that you can write to."
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedLock:
    """A lock with the current path of every raw file, and the other results of the search for raw files.

    Attributes:
        lock: The lock to use. If there are new files, they are its last generation (the raw files that one run added).
        added: The new files, by source name.
        gone_names: Names of the files that were removed from the lock because they no longer exist. Only files that no
            completed run has used are removed.
        unread: Counts of nearby files that no source reads, by source name.
        guesses: The fields that were guessed to contain the text of new files, by source name.
    """

    lock: Lock
    added: Mapping[str, tuple[RawFile, ...]] = field(default_factory=dict)
    gone_names: tuple[str, ...] = ()
    unread: Mapping[str, FileCounts] = field(default_factory=dict)
    guesses: Mapping[str, TextColumns] = field(default_factory=dict)


def resolve_raw_files(recipe: Recipe, lock: Lock, cache: StatCache) -> ResolvedLock:
    """Find the current raw files of all sources, and add files that are not in the lock as a new generation.

    Files are identified by content. Each raw file is hashed once. Later runs find the digests of unchanged files in
    `cache`.

    Args:
        recipe: The recipe.
        lock: The content of its lock file. It is not modified.
        cache: Cache of file digests, to which new digests are added.

    Returns:
        A new lock in which each file has its current path ("" if the file is gone), and the files that were added.

    Raises:
        InputError: If a source's files cannot be found or read, or none of its files has a text field.
    """
    unopened: dict[str, list[tuple[str, str, str]]] = {}
    earlier = {name for generation in lock.generations for name in generation} if recipe.is_scheduled else set()
    found = {entry.source.name: _hash_source(entry, recipe, cache, unopened, earlier) for entry in recipe.sources}
    paths = {name: {file.sha256: (file.path, file.state) for file in files} for name, files in found.items()}
    lock = without_files(lock, lambda name, file: name not in found)
    lock, gone = _without_gone_files(lock, paths)
    generations = [
        {name: _with_paths(files, paths.get(name, {})) for name, files in generation.items()}
        for generation in lock.generations
    ]
    locked = {
        (name, file.sha256) for generation in lock.generations for name, files in generation.items() for file in files
    }
    added = {name: tuple(file for file in files if (name, file.sha256) not in locked) for name, files in found.items()}
    sources = [entry.source for entry in recipe.sources]
    guessed, guesses = guess_text_fields(sources, lock.guessed, generations, added)
    without = find_files_without_text(guesses)
    for source in sources:
        left = [file for file in found[source.name] if file.path not in without.get(source.name, ())]
        if found[source.name] and not left:
            refuse_source_without_text(source, guesses[source.name])
    added = {name: tuple(f for f in files if f.path not in without.get(name, ())) for name, files in added.items()}
    added = {name: files for name, files in added.items() if files}
    if added:
        generations.append(added)
    return ResolvedLock(
        lock=replace(
            lock,
            generations=tuple(generations),
            guessed=guessed,
            fitted=lock.fitted if recipe.fitted is None else recipe.fitted,
            chosen=lock.chosen if recipe.chosen is None else recipe.chosen,
        ),
        added=added,
        gone_names=gone,
        unread=find_unread_files(recipe, found, set().union(*without.values()), unopened),
        guesses=guesses,
    )


def _hash_source(
    entry: SourceEntry,
    recipe: Recipe,
    cache: StatCache,
    unopened: dict[str, list[tuple[str, str, str]]],
    earlier: Collection[str],
) -> list[RawFile]:
    """Hash the raw files of a source, and return those that could be opened.

    With `on_damage = "skip"`, files that cannot be opened are skipped, unless they outnumber the readable files. Errors
    of an object store are always raised, because the objects are still there when it responds again.

    Args:
        entry: The source and its settings.
        recipe: The recipe.
        cache: Cache of file digests, to which new digests are added.
        unopened: Dictionary of the skipped files by source name, as (name, path, error kind) tuples. The source's entry
            is added.
        earlier: Names of sources that earlier runs have read. For these, any number of files may be impossible to open.

    Raises:
        InputError: If files cannot be opened and the source does not skip them, or most files cannot be opened.
    """
    files = list_raw_files(entry, recipe)
    if entry.on_damage != "skip" or any(isinstance(path, ObjectPath) for _, path in files[:1]):
        return hash_files(files, cache)
    faults: list[tuple[str, Path, OSError]] = []
    hashed = hash_files(files, cache, lambda *fault: faults.append(fault))
    if len(faults) > len(hashed) and entry.source.name not in earlier:
        _, path, error = faults[0]
        raise InputError(
            f"Source {entry.source.name!r}: {len(faults):,} of {len(files):,} raw files cannot be opened, such as "
            f"{to_printable(str(path))}: {error.strerror}. Check their permissions and the disk, then run again."
        ) from error
    unopened[entry.source.name] = [(name, str(path.absolute()), classify_error(error)) for name, path, error in faults]
    return hashed


def list_raw_files(entry: SourceEntry, recipe: Recipe) -> list[tuple[str, Path]]:
    """List a source's raw files as (name, path) pairs, omitting files in store folders.

    Args:
        entry: The source and its settings.
        recipe: The recipe. Its store and its folder are used.

    Raises:
        InputError: If the source's files have not been fetched yet, or all the files found are in a store.
    """
    if entry.fetch is not None and recipe.path is not None:
        folder = find_folder(entry.fetch, recipe.path.parent)
        if not Path(folder).exists():
            raise InputError(
                f"Source {entry.source.name!r}: nothing is fetched yet, so there is no {folder}. "
                f"`cloze fetch {quote(str(recipe.path))}` brings its files; `cloze run` does that first."
            )
    apart, found = build_store_check(entry.source, recipe), entry.source.files()
    left = [
        (name, path)
        for name, path in found
        if not apart(path.parent)
        and (isinstance(path, ObjectPath) or not path.is_symlink() or not apart(path.resolve().parent))
    ]
    if found and not left:
        raise InputError(
            f"Source {entry.source.name!r}: each of the {len(found):,} files that it finds is in a store of Cloze, and "
            "what runs wrote is not read. Give its `path` another folder."
        )
    return left


def build_store_check(source: Source, recipe: Recipe) -> FolderPredicate:
    """Return a function that checks whether a folder below the source belongs to a store, not to the raw files.

    The function takes the path of a folder and returns True if it does. Symbolic links are followed.

    Args:
        source: The source. Its path is searched for raw files.
        recipe: The recipe. Its store is the one its runs write to.

    Raises:
        InputError: If the source's own path is in a folder that runs write to.
    """
    where, store = parse_raw_path(str(getattr(source, "path", ""))).expanduser(), parse_raw_path(recipe.store)
    objects = isinstance(where, ObjectPath)
    if not hasattr(source, "path"):
        return exclude_nothing
    if not objects and where.is_file():
        refuse_store(where)
        return exclude_nothing
    own = Path(*store.parts) if objects == isinstance(store, ObjectPath) else None  # objects' paths too are compared so
    root = Path(*takewhile(lambda part: not WILDCARDS & set(part), where.parts))
    root = root if objects else split_glob(str(where))[0].resolve()
    if own is not None and root.is_relative_to(own) and is_run_output(root, own):
        raise InputError(
            f"Source {source.name!r}: its path {where} is in the recipe's own store, {store}, so each run would read "
            "what earlier runs wrote. Give `store` or the source's `path` another folder."
        )
    if not objects:
        refuse_store(root)
    if objects:
        return lambda path: own is not None and path.is_relative_to(own) and not root.is_relative_to(own)
    return _build_folder_check(root, own)


def _build_folder_check(root: Path, own: Path | None) -> FolderPredicate:
    """Build the check of `build_store_check` for local folders below `root`. Its results are cached.

    Args:
        root: Resolved folder of the source.
        own: Folder of the recipe's store; None if the store is not local.
    """

    known = dict.fromkeys((root, *root.parents), False)

    def is_apart(folder: Path) -> bool:
        above = folder.resolve()
        unknown = []
        while above not in known:
            unknown.append(above)
            above = above.parent
        for each in reversed(unknown):
            known[each] = known[each.parent] or is_store(each, own)
        return known[unknown[0] if unknown else above]

    return cache(is_apart)


def find_unread_files(
    recipe: Recipe,
    files_by_source: Mapping[str, Sequence[RawFile]],
    without_text: Collection[str],
    unopened: Mapping[str, Sequence[tuple[str, str, str]]],
) -> dict[str, FileCounts]:
    """Count the files next to each source's raw files that no source reads, and return the counts by source name.

    Args:
        recipe: The recipe.
        files_by_source: The raw files of each source, by source name.
        without_text: Paths of raw files that contain no text.
        unopened: The files that could not be opened, as (name, path, error kind) tuples by source name.
    """
    left = {name: [file for file in files if file.path not in without_text] for name, files in files_by_source.items()}
    read = {to_absolute(file.path) for files in left.values() for file in files}
    kinds = {to_absolute(path): TABLE_WITHOUT_TEXT for path in without_text}
    return {
        entry.source.name: count_files(
            entry.source,
            left[entry.source.name],
            read,
            build_store_check(entry.source, recipe),
            kinds,
            unopened.get(entry.source.name, ()),
        )
        for entry in recipe.sources
    }


def _without_gone_files(lock: Lock, paths: Mapping[str, Mapping[str, tuple[str, str]]]) -> tuple[Lock, tuple[str, ...]]:
    """Remove files that no longer exist from generations that no run has completed.

    Args:
        lock: The lock. It is not modified.
        paths: The (path, state) of each existing file, by source name and then by sha256.

    Returns:
        The new lock, and the names of the removed files.
    """
    pending = lock.generations[len(lock.generations) - lock.pending :]
    files = [(name, file) for generation in pending for name, group in generation.items() for file in group]
    gone = {(name, file.sha256): file.name for name, file in files if file.sha256 not in paths.get(name, {})}
    return without_files(lock, lambda name, file: (name, file.sha256) in gone), tuple(gone.values())


def without_files(lock: Lock, is_gone: Callable[[str, RawFile], bool]) -> Lock:
    """Return a copy of a lock without some of its raw files.

    A generation (the raw files that one run added) that becomes empty is removed, and later generations are renumbered.
    A generation that was already empty (such as one that only removes documents) is kept.

    Args:
        lock: The lock.
        is_gone: Called with the source name and the file. It returns True to remove the file.
    """
    left = [
        {name: some for name, files in entry.items() if (some := tuple(f for f in files if not is_gone(name, f)))}
        for entry in lock.generations
    ]
    kept = [bool(files or not was) for files, was in zip(left, lock.generations, strict=True)]
    before = sum(kept[: lock.vocabulary_generation])
    generations = tuple(compress(left, kept))
    guessed = {
        name: tuple(replace(one, generation=sum(kept[: one.generation - 1]) + 1) for one in names)
        for name, names in lock.guessed.items()
    }
    return replace(
        lock,
        generations=generations,
        pending=sum(kept[len(kept) - lock.pending :]),
        accepted=sum(kept[: lock.accepted]),
        vocabulary_generation=max(1, before),
        guessed=guessed,
    )


def _with_paths(files: Sequence[RawFile], paths: Mapping[str, tuple[str, str]]) -> tuple[RawFile, ...]:
    """Return copies of raw files with their current path and state. Both are "" for a file that is gone.

    Args:
        files: The raw files.
        paths: The (path, state) of each file, by sha256. The state shows whether the file has changed since it was
            hashed.
    """
    found = ((file, *paths.get(file.sha256, ("", ""))) for file in files)
    return tuple(replace(file, path=path, state=state) for file, path, state in found)
