"""Several faults at once in generations that are settled, and then a new day, which ends as all days from nothing do.

Most of them are `long`: each is a run.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console
from small_recipe import Run, World, fill, new_world, page, prose

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from flows.command.verify import verify_store
from flows.run.record.figures import read_stored_manifests
from flows.run.record.ledger_balance import build_accounts

Days = Sequence[Run]


def put_day(world: World, day: int) -> None:
    """A file of new pages, and of one that revises an old page."""
    pages = [page(str(day + number), prose(day + number)) for number in range(4)]
    world.put("pages", f"pages-{day}", [*pages, page("3", prose(day + 77), revision=day)])


class Grown(NamedTuple):
    """A world of three generations, its runs, and the contents of all that a run of four from nothing leaves."""

    world: World
    days: Days
    contents: dict[str, str]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    world = fill(new_world(tmp_path_factory.mktemp("days") / "world"))
    days = [world.run()]
    for day in (200, 300):
        put_day(world, day)
        days.append(world.run())
    whole = World(folder=world.folder.with_name("whole"))
    shutil.copytree(world.folder, whole.folder, ignore=shutil.ignore_patterns("store"))
    put_day(whole, 400)
    whole.run()
    contents = {path: Manifest.from_bytes(data, path).content for path, data in whole.manifests().items()}
    return Grown(world, days, contents)


def table(days: Days, day: int, kind: str, name: str) -> str:
    """The last file that has rows of a table, of the artifact of a day."""
    manifest = days[day].manifest(kind)
    files = [file.path for part in manifest.parts for file in part.files if file.table == name and file.content.rows]
    return f"{manifest.stage_folder}/{files[-1]}"


def manifest(days: Days, day: int, kind: str) -> str:
    return f"{days[day].manifest(kind).folder}/manifest.json"


PARSED = ("documents", "signatures")
RAW = "../raw/pages/pages-200.jsonl"
FILES: dict[str, Callable[[Days], list[str]]] = {
    "documents and corpus": lambda days: [table(days, 0, kind, "documents") for kind in ("documents", "corpora")],
    "verdicts and a manifest": lambda days: [table(days, 0, "verdicts", "verdicts"), manifest(days, 1, "documents")],
    "two signatures": lambda days: [table(days, day, "signatures", "signatures") for day in (0, 1)],
    "the settled corpus": lambda days: [table(days, 2, "corpora", "documents"), manifest(days, 2, "corpora")],
    "records": lambda days: [f"{days[0].manifest(kind).folder}/parts/00000.json" for kind in PARSED],
    "tokens and shards": lambda days: [table(days, 2, "tokens", "tokens"), manifest(days, 2, "shards")],
}  # fmt: skip
FOLDERS: dict[str, Callable[[Days], list[str]]] = {
    "a folder of documents": lambda days: [days[0].manifest("documents").folder],
    "of signatures": lambda days: [days[1].manifest("signatures").folder],
    "of the settled corpus": lambda days: [days[2].manifest("corpora").folder],
    "of several": lambda days: [days[day].manifest(kind).folder for day, kind in ((0, "corpora"), (1, "verdicts"))],
    "a raw file": lambda days: [RAW],
}


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes(byte ^ 4 for byte in data[50:]))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


ALWAYS = {("two signatures", flip), ("documents and corpus", remove)}
CASES = [
    *((name, paths, how) for name, paths in FILES.items() for how in (flip, cut, remove)),
    *((name, paths, remove) for name, paths in FOLDERS.items()),
]


@pytest.mark.parametrize(
    ("paths", "harm"),
    [
        pytest.param(paths, how, id=f"{how.__name__}-{name}", marks=[] if (name, how) in ALWAYS else [pytest.mark.long])
        for name, paths, how in CASES
    ],
)
def test_a_day_after_faults_is_as_if_there_were_none(
    grown: Grown, tmp_path: Path, paths: Callable[[Days], list[str]], harm: Callable[[Path], None]
) -> None:
    """Fails if a fault ends the run, is carried into what is new, or leaves counts that do not balance."""
    world = World(folder=tmp_path / "world")
    shutil.copytree(grown.world.folder, world.folder)
    for path in paths(grown.days):
        harm(Path(world.place.to_full_path(path)))
    put_day(world, 400)
    run = world.run()
    found = {path: Manifest.from_bytes(world.place.read(path), path).content for path in grown.contents}
    assert found == grown.contents
    accounts = build_accounts(read_stored_manifests(run.place, run.record))
    assert accounts.balances and run.outcome.corpus.count_rows("deleted")
    assert accounts.headline["kept"][""] == count_documents(world, run)


def count_documents(world: World, run: Run) -> int:
    """Count the documents of a run. A file that no stage had to read is checked by its readers, and mended after them.

    That a settled generation is not read is what makes later days cheap: `cloze verify` finds such a file, and the next
    run builds it again.
    """
    try:
        return sum(1 for _ in run.corpus.iter_documents())
    except Damaged:
        assert not verify_store(Console(quiet=True), world.place.address).is_whole
        return sum(1 for _ in world.run().corpus.iter_documents())


@pytest.mark.long
def test_a_fault_whose_raw_file_is_gone_is_one_paragraph(grown: Grown, tmp_path: Path) -> None:
    """Fails if a run builds something else, or does not say which files would mend it."""
    world = World(folder=tmp_path / "world")
    shutil.copytree(grown.world.folder, world.folder)
    corpora = [manifest(grown.days, day, "corpora") for day in (1, 2)]
    for path in (RAW, table(grown.days, 1, "documents", "documents"), *corpora):
        remove(Path(world.place.to_full_path(path)))
    put_day(world, 400)
    with pytest.raises(InputError, match="Bring the files back"):
        world.run()
