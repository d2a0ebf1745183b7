"""`cloze fetch`: the raw files of a recipe's sources, from the servers that publish them.

Promises: what `latest` stands for is written down before the first byte of a file is requested, and the sha256 of every
file as soon as its source is done, even if another file failed. A source that fails stops no other; in the end one
InputError names all faults. A file that exists whole is not downloaded again. Costs: the network; an existing file is
hashed once, 0.8 GB/s, and then recognized by its size and times.
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
    """The result of downloading the raw files of a recipe.

    Attributes:
        lines: One readable line for each source.
        resolved: The exact version and files that each source's `fetch` table refers to, by source name, as JSON for
            the lock file.
        files: The downloaded raw files, by source name.
    """

    lines: tuple[str, ...]
    resolved: Mapping[str, Json]
    files: Mapping[str, tuple[RawFile, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Options of the command `cloze fetch`.

    Attributes:
        source: Name of the only source to fetch. If None, all sources are fetched.
        limit: Maximum number of files for each source. If None, the limit in the recipe is used.
        refresh: True to look up the version `latest` again, even if it is already recorded in the lock file.
    """

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
    """Download the raw files that the `fetch` tables of a recipe refer to, unless they already exist.

    Args:
        tables: The `fetch` table of each source that has one, by source name.
        root: Folder of the recipe. Relative folders and lists are resolved against it, and files are only written below
            it.
        resolved: The results of earlier downloads in the lock file, as in `FetchReport.resolved`; {} for a first
            download.
        record: Called with the results of all sources (as in `FetchReport.resolved`) whenever one of them changes. It
            must write them to the lock file immediately.
        options: Options of the command `cloze fetch`; None for the defaults.
        hashes: Cache of the sha256 of local files, so that unchanged files are not hashed again.
        progress: Called during each download with the file's name, the bytes received, and the file's size (None if
            unknown).
        patience: Time limits and retries of requests; None for the defaults.
        given_folders: Names of sources with a folder that was set by the user instead of the recipe. Such a folder may
            be outside `root`.

    Raises:
        InputError: If there is no table, a folder is outside `root` or used twice, or files could not be downloaded.
            The message covers all sources.
    """
    asked = options or FetchOptions()
    chosen = _choose_tables(tables, asked)
    for name, settings in chosen.items():
        if name not in given_folders:
            _check_below(name, find_folder(settings, root), root)
    all_resolved = {name: value for name, value in resolved.items() if name in tables}

    def keep(name: str, resolution: ResolvedFetch) -> None:
        """Record the version and files that a source's `fetch` table was resolved to, unless this is already recorded.

        Args:
            name: Name of the source.
            resolution: The exact version and files.
        """
        value = resolution.to_json()
        if all_resolved.get(name) != value:
            all_resolved[name] = value
            record(dict(all_resolved))

    def fetch(name: str, settings: AcquireSettings) -> tuple[RawFile, ...]:
        """Resolve a source's `fetch` table, download its files, record the result, and return the files.

        Args:
            name: Name of the source.
            settings: Its `fetch` table.

        Raises:
            InputError: If the table cannot be resolved, or files could not be downloaded.
        """
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
    """Describe a source's downloaded files in one line: versions, number, total size and folder.

    Args:
        source: Name of the source.
        fixed: Descriptions of the exact versions that were downloaded.
        files: The downloaded files.
        folder: Path of the folder that contains them.
    """
    named = f"{', '.join(fixed)}: " if fixed else ""
    size = sum(file.size_bytes for file in files)
    return f"{source}: {named}{format_count(len(files), 'file')}, {size / 1e6:,.1f} MB in {folder}"


def _choose_tables(tables: FetchTables, options: FetchOptions) -> FetchTables:
    """Return the `fetch` tables of the selected sources, by source name, with the limit set in the options.

    Raises:
        InputError: If no source has such a table, the selected one does not exist, or two sources share a folder.
    """
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
    """Check that a source's download folder is below the recipe's folder.

    An untrusted recipe must not be able to write elsewhere.

    Args:
        source: Name of the source.
        folder: The folder for the files, as an absolute path.
        root: The recipe's folder.

    Raises:
        InputError: If it is not below the recipe's folder.
    """
    if not Path(folder).is_relative_to(root.resolve()):
        key = join_key(("source", source, "fetch", "folder"))
        raise InputError(
            f"Source {source!r} would be fetched into {folder}, and that is not below the recipe's folder "
            f"{root.resolve()}. To have it there, name the folder on the command line: --set {key}={quote(folder)}."
        )


def _check_folders(tables: FetchTables) -> None:
    """Raise InputError if two sources are downloaded to the same folder, because each would read the other's files."""
    owners: dict[str, str] = {}
    for name, settings in tables.items():
        folder = normpath(settings.folder)
        if owners.setdefault(folder, name) != name:
            raise InputError(
                f"The sources {owners[folder]!r} and {name!r} both fetch into {folder}, and would read each "
                "other's files. Give one of them another fetch.folder."
            )
