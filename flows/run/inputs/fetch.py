"""`cloze fetch`: the raw files of a recipe's sources, from the servers that publish them.

Promises: what `latest` means is written down before the first byte of a file is requested, and the sha256 of every
file as soon as its source is done, even if another file failed. A source that fails stops no other; in the end one
InputError names all faults. A file that exists whole is not downloaded again.
Costs: the network; an existing file is hashed once, 0.8 GB/s, and then recognized by its state on the disk.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from os.path import normpath
from pathlib import Path
from shlex import quote

from corpora.acquire.download import ProgressCallback, ignore_progress
from corpora.acquire.fetch import NotAllFetched, fetch_files
from corpora.acquire.fetch_table import AcquireSettings, find_folder
from corpora.acquire.http_client import Hosts, Patience
from corpora.acquire.publishers import ResolvedFetch, resolve
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import RawFile, StatCache
from corpora.store.settings import check_choice
from flows.recipes.tables import join_key
from flows.run.record.counts_text import format_count

RecordCallback = Callable[[Mapping[str, Json]], None]
FetchTables = Mapping[str, AcquireSettings]  # the `fetch` table of each source that has one


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReport:
    """Holds the results of a fetch. `resolved`: for the lock, source -> what its table meant; `lines`: for people."""

    lines: tuple[str, ...]
    resolved: Mapping[str, Json]
    files: Mapping[str, tuple[RawFile, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Options of one fetch. limit: instead of the recipe's; refresh: resolve again what was resolved before."""

    source: str | None = None
    limit: int | None = None
    refresh: bool = False


def fetch_recipe(
    tables: FetchTables,
    root: Path,
    resolved: Mapping[str, Json],
    record: RecordCallback,
    options: FetchOptions | None,
    hashes: StatCache,
    progress: ProgressCallback = ignore_progress,
    patience: Patience | None = None,
    given_folders: Collection[str] = (),
) -> FetchReport:
    """Fetch what the tables mean, unless it exists already.

    root:     the recipe's folder, the base of relative folders and lists; nothing is written outside of it
    resolved: what `record` was given last; {} if nothing was resolved yet
    anywhere: names of sources for which the person, and not the recipe, names the folder
    record:   is given what was resolved, whenever there is more of it: put it into the lock at once
    Raises InputError with what is missing, for all sources together.
    """
    asked = options or FetchOptions()
    chosen = _choose_tables(tables, asked)
    for name, settings in chosen.items():
        if name not in given_folders:
            _check_below(name, find_folder(settings, root), root)
    all_resolved = {name: value for name, value in resolved.items() if name in tables}

    def keep(name: str, resolution: ResolvedFetch) -> None:
        """Write down what was resolved, if it is new."""
        value = resolution.to_json()
        if all_resolved.get(name) != value:
            all_resolved[name] = value
            record(dict(all_resolved))

    def fetch(name: str, settings: AcquireSettings) -> tuple[RawFile, ...]:
        """Resolve, fetch, and write down the results of one source. Raises InputError."""
        again = name in all_resolved and not asked.refresh
        before = ResolvedFetch.from_json(all_resolved[name], f"The lock, for source {name!r},") if again else None
        with closing(Hosts(settings, patience)) as hosts:
            resolution = resolve(settings, hosts, root, before, asked.refresh)
            keep(name, resolution)
            folder = Path(find_folder(settings, root))
            try:
                landed = fetch_files(resolution.select_files(settings.limit), folder, hosts, hashes, progress)
            except NotAllFetched as error:
                keep(name, resolution.with_fetched(error.landed))
                raise
        keep(name, resolution.with_fetched(landed))
        return tuple(landed)

    lines, files, faults = [], {}, []
    for name, settings in chosen.items():
        try:
            files[name] = fetch(name, settings)
            lines.append(_describe_files(name, all_resolved[name]["fixed"], files[name], find_folder(settings, root)))
        except InputError as error:
            faults.append(f"Source {name!r}: {error}")
    if faults:
        raise InputError("\n".join(faults))
    return FetchReport(lines=tuple(lines), resolved=all_resolved, files=files)


def _describe_files(source: str, fixed: Sequence[str], files: Sequence[RawFile], folder: str) -> str:
    """Describe the files that exist now, for people."""
    named = f"{', '.join(fixed)}: " if fixed else ""
    size = sum(file.size_bytes for file in files)
    return f"{source}: {named}{format_count(len(files), 'file')}, {size / 1e6:,.1f} MB in {folder}"


def _choose_tables(tables: FetchTables, options: FetchOptions) -> FetchTables:
    """Return the tables to fetch now, with their limits. Raises InputError if there are none."""
    if not tables:
        raise InputError(
            "No [[source]] of this recipe has a `fetch` table, so there is nothing to fetch. Give it one, as in "
            'fetch = { catalogue = "wikipedia", dump = "enwiki-latest" }.'
        )
    _check_folders(tables)
    if options.source is not None:
        check_choice("--source", options.source, tables)
    chosen = {name: settings for name, settings in tables.items() if options.source in (None, name)}
    if options.limit is None:
        return chosen
    return {name: replace(settings, limit=options.limit) for name, settings in chosen.items()}


def _check_below(source: str, folder: str, root: Path) -> None:
    """Raise InputError if a recipe names a folder outside of its own: it may be somebody else's recipe."""
    if not Path(folder).is_relative_to(root.resolve()):
        key = join_key(("source", source, "fetch", "folder"))
        raise InputError(
            f"Source {source!r} would be fetched into {folder}, and that is not below the recipe's folder "
            f"{root.resolve()}. To have it there, name the folder on the command line: --set {key}={quote(folder)}."
        )


def _check_folders(tables: FetchTables) -> None:
    """Raise InputError if two sources would fetch into one folder: each reads everything in its own."""
    owners: dict[str, str] = {}
    for name, settings in tables.items():
        folder = normpath(settings.folder)
        if owners.setdefault(folder, name) != name:
            raise InputError(
                f"The sources {owners[folder]!r} and {name!r} both fetch into {folder}, and would read each "
                "other's files. Give one of them another fetch.folder."
            )
