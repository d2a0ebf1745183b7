"""A `fetch` table, resolved once: a date or month, and the files with all that is known of them.

Promises: what was resolved is kept as JSON, and later runs go by it, whatever is published meanwhile: `latest` is
looked up again only when asked to. A file's sha256 is added when it was fetched, so that the same lock brings the same
bytes to another machine or says that it cannot. A limit may change at any time; where the list is needed again to
reach further, it must begin as it did.
Costs: two small documents for a dump, one list for a month or a crawl. The lock of all 100,000 files of a crawl has
22 MB and is read in 2 s: give a crawl a limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpora.acquire.catalogues import PUBLISHED, first_files
from corpora.acquire.hosts import Hosts
from corpora.acquire.remote import RemoteFile
from corpora.acquire.wanted import AcquireSettings, is_address
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import RawFile
from corpora.store.settings import convert


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The question, its resolution, and the files.

    asked:    the keys of the `fetch` table that decide it
    fixed:    the dump ("enwiki-20261101"), the months, the crawl or the list
    complete: whether `files` are all of them, or as many as the limit needed
    """

    asked: Mapping[str, Json]
    fixed: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    complete: bool = True

    def to_json(self) -> dict[str, Json]:
        """A form for the lock."""
        files = [file.to_json() for file in self.files]
        return {"asked": dict(self.asked), "fixed": list(self.fixed), "complete": self.complete, "files": files}

    @staticmethod
    def from_json(data: Mapping[str, Json], where: str) -> "Resolved":
        """Read the form that `to_json` wrote. Raises InputError for another form."""
        try:
            resolved: Resolved = convert(data, Resolved, "fetched")
        except InputError as error:
            raise InputError(
                f"{where} does not hold what a fetch was resolved to ({error}). Restore it, or fetch with --refresh."
            ) from error
        return resolved

    def wanted(self, limit: int | None) -> list[RemoteFile]:
        """The files that a limit leaves."""
        return first_files(self.files, limit)

    def with_landed(self, landed: Sequence[RawFile]) -> "Resolved":
        """Return this with the size and sha256 of files that were fetched."""
        facts: dict[str, dict[str, Any]] = {
            file.name: {"size_bytes": file.size_bytes, "sha256": file.sha256} for file in landed
        }
        return replace(self, files=tuple(replace(file, **facts.get(file.name, {})) for file in self.files))


def resolve(
    settings: AcquireSettings, hosts: Hosts, root: Path, earlier: Resolved | None = None, refresh: bool = False
) -> Resolved:
    """Return the files that the settings mean: as resolved before, or by asking the publisher.

    root:    the folder that a `list` is relative to
    earlier: what an earlier run resolved; it holds unless other files are asked for now
    refresh: ask again in any case
    Raises InputError.
    """
    if refresh or earlier is None:
        return _ask(settings, hosts, root)
    if earlier.asked != settings.asked() or _is_at_hand(settings):
        return _keeping(earlier, _ask(settings, hosts, root))
    if earlier.complete or (settings.limit is not None and len(earlier.files) >= settings.limit):
        return earlier
    now = _ask(settings, hosts, root, earlier.fixed)
    if [file.url for file in now.files[: len(earlier.files)]] != [file.url for file in earlier.files]:
        raise InputError(
            f"The list of {', '.join(earlier.fixed)} begins otherwise than when it was resolved, so that more of it "
            "would be another corpus. Keep fetch.limit as it was, or fetch with --refresh to go by the new list."
        )
    return _keeping(earlier, now)


def _ask(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str] = ()) -> Resolved:
    """Return what is published now. `fixed`: the dump, months, crawl or list that an earlier question led to."""
    found, files = PUBLISHED[settings.catalogue](settings, hosts, root, fixed)
    if not files:
        raise InputError(f"{', '.join(found)}: the publisher's list names no file. Name another one.")
    kept = files[: settings.limit] if settings.catalogue in ("cc-news", "wet") else files  # their lists are long
    return Resolved(asked=settings.asked(), fixed=found, files=tuple(kept), complete=len(kept) == len(files))


def _is_at_hand(settings: AcquireSettings) -> bool:
    """True if the list asked for is next to the recipe, where it is the user's to change."""
    return settings.catalogue == "urls" and not (settings.list and is_address(settings.list))


def _keeping(earlier: Resolved, now: Resolved) -> Resolved:
    """Return this resolution, with what was recorded of the files that are still the same."""
    before = {file.url: file for file in earlier.files}
    return replace(now, files=tuple(_same(before.get(file.url), file) for file in now.files))


def _same(earlier: RemoteFile | None, now: RemoteFile) -> RemoteFile:
    """Return the file as it was recorded, unless it differs from what is stated of it now."""
    facts = now.to_json().items()
    return earlier if earlier is not None and facts <= earlier.to_json().items() else now
