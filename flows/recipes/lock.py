"""recipe.lock: what a recipe was resolved to, so that the same recipe means the same inputs tomorrow.

The lock next to a recipe holds the generations of raw files by content. Files that are in no generation yet become a
new one; files of older generations keep the name they came under, wherever they are now. Commit it with
the recipe: a fresh machine then replays the same generations.

A lock ends with a digest of itself, so that a flipped bit is noticed. A lock that a person edited, with the
digest removed, is read as it is; the next run seals it again.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import compress, takewhile
from pathlib import Path
from shlex import quote
from typing import Any

from corpora.acquire.fetch_table import folder_of
from corpora.errors import InputError
from corpora.judging.documents import build_raw_parent
from corpora.sources.bytes.objects import WILDCARDS, ObjectPath, raw_path
from corpora.sources.contract import RawFile, Source, StatCache, escape_surrogates, hash_files, split_glob
from corpora.sources.files.guessing import FoundText
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
from flows.recipes.store_folders import is_store, is_written_by_runs, refuse_store
from trainer.start_weights import StartModel

VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutFile:
    """A raw file that could not be read.

    settings: of its source at that time; where the source is changed, the file is read again
    why:      what was wrong
    """

    source: str
    name: str
    sha256: str
    settings: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Generations in order: for each, source name -> its raw files. `quarantine`: records that must not be read.

    left_out: raw files that must not be read
    pending:  how many of the newest generations no run has judged to its end; nothing was made of them, so a file of
              one that is gone by now (replaced or removed) is taken out of it
    accepted: how many of the first generations a run on a schedule went on with although too much was damaged
    vocabulary_generation: the generation that the vocabulary is trained on
    fetched: for each source with a `fetch` table, what it was resolved to (`flows.run.inputs.fetch`)
    guessed: for each source whose recipe does not name the text field, the names that were guessed
    fitted:  for a folder without a recipe, what its defaults were fitted to
    chosen:  for a folder without a recipe, what `--set` gave it
    start:   the model that training begins with; each run looks it up and it is written nowhere
    teacher: the model that it learns from, likewise
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
        """How many bytes the raw files have."""
        files = (file for generation in self.generations for some in generation.values() for file in some)
        return sum(file.size_bytes for file in files)

    @property
    def file_locations(self) -> dict[tuple[str, str], tuple[int, str]]:
        """The generation and the path of each raw file, by its source and digest."""
        return {
            (name, file.sha256): (number, file.path)
            for number, generation in enumerate(self.generations, 1)
            for name, files in generation.items()
            for file in files
        }

    def to_bytes(self) -> bytes:
        """Return a form for the disk, sealed."""
        stored = replace(self, generations=(), start=None, teacher=None)
        fields = {name: value for name, value in asdict(stored).items() if value}
        generations = [
            {source: [file.to_json() for file in files] for source, files in sorted(generation.items())}
            for generation in self.generations
        ]
        data = {"version": VERSION, **fields, "generations": generations}
        return seal(json.dumps(data, indent=1, ensure_ascii=False).encode())

    def find_left_out(self, source: Source) -> dict[str, str]:
        """Return the files that a source does not read, as it is now: sha256 -> why."""
        now = compute_settings_digest(source) if self.left_out else ""
        return {f.sha256: f.why for f in self.left_out if (f.source, f.settings) == (source.name, now)}

    def find_raw_files(self, documents: Manifest) -> tuple[RawFile, ...]:
        """Return the raw files that documents were parsed from; none where the lock does not name them."""
        of_source = (generation.get(documents.name, ()) for generation in self.generations)
        read = (files for files in of_source if files and build_raw_parent(files) in documents.parents)
        return tuple(file for files in read for file in files)

    def with_paths(self, paths: Mapping[str, str]) -> "Lock":
        """Return this lock with its raw files at these paths (sha256 -> path); "" where a file is not among them."""
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
        """Return the lock that `to_bytes` wrote. Raises InputError for another format or a wrong digest."""
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
    """Return the lock that a JSON object means. Raises ValueError, KeyError, TypeError or AttributeError."""
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
    """Return a digest of the settings that decide how a source reads a file."""
    return compute_fingerprint(kind=source.kind, version=source.version, settings=source.settings())


def read_lock(path: Path | None) -> Lock:
    """Return the lock in a file; an empty one where there is none."""
    if path is None or not path.exists():
        return Lock()
    with open_file(path) as file:
        return Lock.from_bytes(file.read(), path)


def write_lock(path: Path, lock: Lock) -> None:
    """Write the lock in one step. Raises InputError if the folder cannot be written."""
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
    """A lock with the paths of all its files: `lock` itself, `added` what is new since the last run.

    gone:   names of the files that were taken out of a pending generation
    looked: by source, what else was where its raw files are; guesses: the guesses for new files
    """

    lock: Lock
    added: Mapping[str, tuple[RawFile, ...]] = field(default_factory=dict)
    gone_names: tuple[str, ...] = ()
    unread: Mapping[str, FileCounts] = field(default_factory=dict)
    guesses: Mapping[str, FoundText] = field(default_factory=dict)


def resolve_raw_files(recipe: Recipe, lock: Lock, cache: StatCache) -> ResolvedLock:
    """Find the raw files of all generations; new ones become a generation of their own.

    A file is identified by its content. Reads every raw file once; later runs ask `cache`.
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
    """Return the raw files of a source; `unopened` gets those that are left out. Raises InputError.

    earlier: names of sources that go on with the files of earlier generations, however many cannot be opened
    An object store that fails ends the run: its objects are there again when it answers.
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
            f"{escape_surrogates(str(path))}: {error.strerror}. Check their permissions and the disk, then run again."
        ) from error
    unopened[entry.source.name] = [(name, str(path.absolute()), classify_error(error)) for name, path, error in faults]
    return hashed


def list_raw_files(entry: SourceEntry, recipe: Recipe) -> list[tuple[str, Path]]:
    """Return the raw files of a source; files that a store inside its folder holds do not count. Raises InputError."""
    if entry.fetch is not None and recipe.path is not None:
        folder = folder_of(entry.fetch, recipe.path.parent)
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
    """Return the check whether a folder below the source is in a store: the recipe's own or another, by whatever path.

    Raises InputError if the source looks into what runs write to the recipe's store.
    """
    where, store = raw_path(str(getattr(source, "path", ""))).expanduser(), raw_path(recipe.store)
    objects = isinstance(where, ObjectPath)
    if not hasattr(source, "path"):
        return exclude_nothing
    if not objects and where.is_file():
        refuse_store(where)
        return exclude_nothing
    own = Path(*store.parts) if objects == isinstance(store, ObjectPath) else None  # objects' paths too are compared so
    root = Path(*takewhile(lambda part: not WILDCARDS & set(part), where.parts))
    root = root if objects else split_glob(str(where))[0].resolve()
    if own is not None and root.is_relative_to(own) and is_written_by_runs(root, own):
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
    """Do the same as `stores_apart`, for folders of this machine below a root."""

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
    """Return, by source, the files that are where its raw files are but that no source reads.

    files_by_source: the raw files of each; without_text: paths of those that hold none
    unopened: (name, path, kind) of those that could not be opened
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
    """Return the lock without the files of pending generations that are gone, and the names of these.

    here: by source, sha256 -> path and state of its files
    """
    pending = lock.generations[len(lock.generations) - lock.pending :]
    files = [(name, file) for generation in pending for name, group in generation.items() for file in group]
    gone = {(name, file.sha256): file.name for name, file in files if file.sha256 not in paths.get(name, {})}
    return without_files(lock, lambda name, file: (name, file.sha256) in gone), tuple(gone.values())


def without_files(lock: Lock, is_gone: Callable[[str, RawFile], bool]) -> Lock:
    """Return the lock without some raw files, each given with its source, and without generations that were theirs
    alone. A generation that came without files (a forget is one) stays.
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
    """Return files of an older generation, with the path where their content is now ("" if it is gone)."""
    found = ((file, *paths.get(file.sha256, ("", ""))) for file in files)
    return tuple(replace(file, path=path, state=state) for file, path, state in found)
