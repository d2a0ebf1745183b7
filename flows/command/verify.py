"""`cloze verify`: checks whether a store is what was written into it, and lists what is damaged for the next runs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command import arguments
from flows.command.progress import CheckProgress
from flows.command.terminal import choose_console, print_json
from flows.integrity.inventory import Fault, Inventory, find_faults, read_inventory
from flows.integrity.rebuilt_part import rebuild_part
from flows.run.addresses import find_artifacts, split_address
from flows.run.faults.damage import DAMAGE_LIST, read_damage_list, write_damage_list
from flows.run.record.counts_text import format_count, join_words

_MAX_FILES_SHOWN = 3  # of the files that nothing names


def verify(
    address: Annotated[str, Parameter(help="An artifact's folder or short id, or a store.")],
    *,
    rebuild: Annotated[
        bool, Parameter(help="Build the first part of each artifact again, and compare the contents.", negative=())
    ] = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Check every file of a store, and list what is damaged.

    Each file is compared with what was written. Damaged files are rebuilt by the next `cloze run` with their recipe.
    """
    lines = choose_console(as_json)
    result = verify_store(lines, address)
    rebuilt = [*rebuild_store(lines, address)] if rebuild and result.is_whole else []
    if as_json:
        print_json({"whole": result.is_whole, **asdict(result), "rebuilt": rebuilt})
    return 0 if result.is_whole and all(each["equal"] for each in rebuilt) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The result of checking a store.

    Attributes:
        faults: A description of each fault.
        files: The number of checked files.
        artifacts: The number of checked artifacts (stored stage results).
        runs: The number of checked run records.
        releases: The number of checked release entries.
        unnamed: The number of files that no artifact, run or release refers to.
    """

    faults: tuple[str, ...]
    files: int
    artifacts: int
    runs: int
    releases: int
    unnamed: int

    @property
    def is_whole(self) -> bool:
        """True if no fault was found."""
        return not self.faults


def verify_store(console: Console, address: str) -> VerifyResult:
    """Check everything at an address, print each fault, and record the damaged files for the next runs.

    Args:
        console: Where to print.
        address: A store, or the folder of one or more stage results in a store.

    Raises:
        InputError: If the address is not in a store, or there is nothing at it.
    """
    place, inside = split_address(address)
    holdings = read_inventory(place, inside)
    faults: list[Fault] = []
    with CheckProgress(console, "checking") as progress:
        for fault in find_faults(holdings, progress.advance):
            console.print(str(fault), style="red", markup=False)
            faults.append(fault)
    result = VerifyResult(
        faults=tuple(map(str, faults)),
        files=sum(len(claim.part.files) for claim in holdings.claims),
        artifacts=len(holdings.manifests),
        runs=len(holdings.runs),
        releases=len(holdings.release_files),
        unnamed=len(holdings.unnamed),
    )
    _print_counts(console, holdings, result)
    for line in _write_damage_list(place, inside, [fault for fault in faults if not fault.loss]):
        console.print(line, markup=False)
    return result


def _write_damage_list(place: Place, inside: str, faults: Sequence[Fault]) -> Iterator[str]:
    """Write the list of damaged files to the store, and yield lines that tell the user what to do next.

    Args:
        place: The store.
        inside: The folder that was checked; "" for the whole store. Entries of the old list outside this folder are
            kept.
        faults: The faults of files that a run can rebuild.
    """
    damaged = {fault.path: fault.what for fault in faults}
    try:
        if inside:
            before = read_damage_list(place).items()
            damaged |= {path: what for path, what in before if not f"{path}/".startswith(f"{inside}/")}
        write_damage_list(place, damaged)
    except InputError as refused:
        yield f"The next runs do not know of this: {refused}"
        return
    if faults:
        yield (
            f"{place.to_address(DAMAGE_LIST)} lists what the next `cloze run` with the recipe builds again. If no "
            "recipe makes an artifact any more, delete its damaged manifest or record: `cloze gc` removes the rest."
        )


def rebuild_store(console: Console, address: str) -> Iterator[dict[str, Any]]:
    """Rebuild the first part (file) of each stored stage result at an address, and compare it with the stored part.

    Args:
        console: Where to print.
        address: A store, or the folder of one or more stage results in a store.

    Yields:
        A dict for each stage result, with the keys "artifact" (its folder), "part", "before" and "after" (content
        digests by table), and "equal" (True or False).
    """
    for artifact in find_artifacts(address):
        rebuilt = rebuild_part(artifact.place, artifact.manifest)
        verdict = "the same content" if rebuilt.is_equal else f"other content: {rebuilt.before} is now {rebuilt.after}"
        where = f"{artifact.manifest.folder}: part {rebuilt.part} built again"
        console.print(f"{where}: {verdict}", style="" if rebuilt.is_equal else "red", markup=False)
        yield {"artifact": artifact.manifest.folder, "equal": rebuilt.is_equal, **asdict(rebuilt)}


def _print_counts(console: Console, holdings: Inventory, result: VerifyResult) -> None:
    """Print how many files, stage results, runs and releases were checked, and how many faults were found.

    Args:
        console: Where to print.
        holdings: The contents of the store, including the files that nothing refers to.
        result: The result of the check.
    """
    looked = [f"{format_count(result.files, 'file')} of {format_count(result.artifacts, 'artifact')}"]
    looked += [format_count(result.runs, "run")] if result.runs else []
    looked += [format_count(result.releases, "entry of a release", "entries of releases")] if result.releases else []
    if holdings.unnamed:
        size = sum(holdings.unnamed.values()) / 1e6
        named = ", ".join(sorted(holdings.unnamed)[:_MAX_FILES_SHOWN])
        line = f"{format_count(len(holdings.unnamed), 'file')} ({size:,.1f} MB) that nothing names: {named}"
        console.print(line, markup=False)
    console.print(f"{join_words(looked)}: {format_count(len(result.faults), 'fault')}")
