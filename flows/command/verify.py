"""`cloze verify`: checks whether a store is what was written into it; with --repair or --rebuild it also acts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from shlex import quote
from typing import Any

from rich.console import Console

from flows.command.terminal.progress import CheckProgress
from flows.integrity.inventory import Claim, Fault, Holdings, check_claims, check_documents, read_holdings
from flows.integrity.repair import rebuild_part, repair, repair_figures
from flows.integrity.store_lock import store_alone
from flows.run.record.counts_text import counted, listed
from flows.run.store_address import find_artifacts, split_address

ONLY_READS = "`cloze verify` without --repair"
_SHOWN = 3  # of the files that nothing names


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a check. faults: what is not as it was written; left: of these what could not be repaired

    files, artifacts, runs, releases: how many were checked; unnamed: files that nothing names
    """

    faults: tuple[str, ...]
    left: tuple[str, ...]
    files: int
    artifacts: int
    runs: int
    releases: int
    unnamed: int

    @property
    def whole(self) -> bool:
        """True if everything is as it was written now."""
        return not self.left


def verify_store(console: Console, address: str) -> Verified:
    """Check everything at an address, one line a fault."""
    place, inside = split_address(address)
    holdings = read_holdings(place, inside)
    _, faults = _check(console, holdings)
    _count(console, holdings, counted(len(faults), "fault"))
    if faults:
        console.print(
            f"`cloze verify --repair {quote(address)}` rebuilds what can be rebuilt; so does `cloze run` for "
            "the damage that it meets.",
            markup=False,
        )
    return _verified(holdings, faults, map(str, faults))


def repair_store(console: Console, address: str) -> Verified:
    """Check everything at an address, and repair what is damaged."""
    place, inside = split_address(address)

    def tell(line: str) -> None:
        console.print(line, markup=False)

    with store_alone(place, tell, ONLY_READS):
        holdings = read_holdings(place, inside)
        faulty, faults = _check(console, holdings)
        if not faults:
            _count(console, holdings, "0 faults")
            return _verified(holdings, (), ())
        unrepaired = [str(fault) for fault in repair(holdings, faulty, inside, tell)]
        repair_figures(holdings, tell)
        left = [*map(str, check_documents(holdings)), *unrepaired]
        for line in left:
            console.print(line, style="red", markup=False)
        holdings = read_holdings(place, inside)
        _count(console, holdings, f"{counted(len(faults), 'fault')}, {len(left):,} left")
        return _verified(holdings, faults, left)


def rebuild_store(console: Console, address: str, part: str | None) -> Iterator[dict[str, Any]]:
    """Build a part of each artifact again next to it; yield whether it has the same content."""
    for artifact in find_artifacts(address):
        rebuilt = rebuild_part(artifact.place, artifact.manifest, part)
        verdict = "the same content" if rebuilt.equal else f"other content: {rebuilt.before} is now {rebuilt.after}"
        where = f"{artifact.manifest.folder}: part {rebuilt.part} built again"
        console.print(f"{where}: {verdict}", style="" if rebuilt.equal else "red", markup=False)
        yield {"artifact": artifact.manifest.folder, "equal": rebuilt.equal, **asdict(rebuilt)}


def _check(console: Console, holdings: Holdings) -> tuple[list[Claim], list[Fault]]:
    """Return the parts in which something is damaged, and all faults; each is shown as it is discovered."""
    faulty: list[Claim] = []
    faults: list[Fault] = []

    def show(new_faults: Sequence[Fault]) -> None:
        faults.extend(new_faults)
        for fault in new_faults:
            console.print(str(fault), style="red", markup=False)

    show([*holdings.faults, *check_documents(holdings)])
    with CheckProgress(console, "checking") as progress:
        for claim, new_faults in check_claims(holdings.place, holdings.claims, progress.advance):
            faulty += [claim] if new_faults else []
            show(new_faults)
    return faulty, faults


def _verified(holdings: Holdings, faults: Sequence[Fault], left: Iterable[str]) -> Verified:
    return Verified(
        faults=tuple(map(str, faults)),
        left=tuple(left),
        files=_files(holdings),
        artifacts=len(holdings.manifests),
        runs=len(holdings.runs),
        releases=len(holdings.releases),
        unnamed=len(holdings.unnamed),
    )


def _files(holdings: Holdings) -> int:
    return sum(len(claim.part.files) for claim in holdings.claims)


def _count(console: Console, holdings: Holdings, end: str) -> None:
    """Print what was checked, what nothing names, and the result."""
    looked = [f"{counted(_files(holdings), 'file')} of {counted(len(holdings.manifests), 'artifact')}"]
    looked += [counted(len(holdings.runs), "run")] if holdings.runs else []
    looked += (
        [counted(len(holdings.releases), "entry of a release", "entries of releases")] if holdings.releases else []
    )
    if holdings.unnamed:
        size = sum(holdings.unnamed.values()) / 1e6
        named = ", ".join(sorted(holdings.unnamed)[:_SHOWN])
        line = f"{counted(len(holdings.unnamed), 'file')} ({size:,.1f} MB) that nothing names: {named}"
        console.print(line, markup=False)
    console.print(f"{listed(looked)}: {end}")
