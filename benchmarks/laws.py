"""How costs grow: of a stage with its number of parts, of a look-up with the size of what it searches.

    python -m benchmarks.laws run shards parts trace planning
    python -m benchmarks.laws shards --megabytes 30 100 --folder laws        keeps the stores for the next call

run:      every stage against the size of the text, and work that never changes, by which two calls are compared
shards:   the shards stage against the number of shards
parts:    the stages after deduplication against the number of parts, which are merged from 257 on
trace:    from an example to its documents, and from a document to its examples, against the size of the text
planning: writing, reading and comparing manifests against the number of their parts

Text and stores are those of `sized_stores`, in this process, without an orchestrator. A figure is of one call, in CPU
seconds of all threads, after a small run that has loaded the kernels; the time of planning a stage is the stage's own.
Rows and MB read are those of the record batches taken from Arrow files; "MB unpacked" is the memory that they needed.
"""

import argparse
import itertools
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from multiprocessing import get_context
from pathlib import Path

from benchmarks.measuring import figure
from benchmarks.sized_stores import FIXED, Cost, SizedStore, metered, run_metered, sized_store
from corpora.store.damage import digest_in
from corpora.store.ledger import Ledger
from corpora.store.manifest import Manifest, Part, PartRecord, RecordAddress, read_record, record_path
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, PartPlan, Stage, read_manifest, survey_stage
from flows.command.trace import trace_document
from flows.run.plan.plan import explain
from flows.run.store_address import Artifact
from shards.reading.files.shard_set import ShardSet
from shards.reading.trace import trace_example

WARM_MEGABYTES = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large: MB of text; numbers of shards, of parts (cuts) of the corpus in the middle, of parts of a manifest,
    of look-ups."""

    megabytes: tuple[float, ...] = (30.0, 100.0, 300.0)
    shards: tuple[int, ...] = (1, 5, 36, 142)
    cuts: tuple[int, ...] = (8, 75, 300)
    parts: tuple[int, ...] = (1_000, 10_000, 100_000)
    lookups: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A measured law: the heads of the columns, and rows of numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[float | str, ...], ...]

    def lines(self) -> Iterator[str]:
        """Yield the law as a table of text."""
        cells = [self.heads, *(tuple(map(_cell, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        yield self.title
        for row in cells:
            yield "  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))


def _cell(value: float | str) -> str:
    """Return whole numbers as they are, measured ones with three significant digits."""
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else figure(value)


class Home:
    """The folder of the stores; each is built when a law first asks for it."""

    def __init__(self, folder: Path, books: Path | None = None) -> None:
        self.folder = folder
        self._books = books
        self._stores: dict[float, SizedStore] = {}

    def store(self, megabytes: float) -> SizedStore:
        """Return the store of one size."""
        if megabytes not in self._stores:
            self._stores[megabytes] = sized_store(self.folder, megabytes, self._books)
        return self._stores[megabytes]


# The laws.


def run_law(home: Home, sizes: Sizes) -> Law:
    """Measure every stage against the size of the text."""
    stores = [home.store(size) for size in sizes.megabytes]
    stages = [kind for kind in stores[0].run.costs if kind != FIXED]
    costs = {kind: [store.run.costs[kind] for store in stores] for kind in stages}
    costs["the run"] = [reduce(Cost.plus, column) for column in zip(*costs.values(), strict=True)]
    rows: list[tuple[float | str, ...]] = [
        (kind, *(cost.seconds for cost in some), *(cost.rows for cost in some)) for kind, some in costs.items()
    ]
    speeds = [size / cost.seconds for size, cost in zip(sizes.megabytes, costs["the run"], strict=True)]
    rows.append(("the run, MB/CPU s", *speeds, *("" for _ in stores)))
    rows.append((FIXED, *(store.run.costs[FIXED].seconds for store in stores), *("" for _ in stores)))
    names = [f"{size:g} MB" for size in sizes.megabytes]
    heads = ("stage", *(f"CPU s, {name}" for name in names), *(f"rows read, {name}" for name in names))
    return Law(title="the run: every stage against the size of the text", heads=heads, rows=tuple(rows))


def shards_law(home: Home, sizes: Sizes) -> Law:
    """Measure the shards stage against the number of shards."""
    rows = [_shards_row(home.store(size), number) for size, number in itertools.product(sizes.megabytes, sizes.shards)]
    heads = ("MB of text", "shards", "CPU s", "rows held", "rows read", "MB unpacked")
    return Law(title="shards: the stage against the number of shards", heads=heads, rows=tuple(rows))


def _shards_row(store: SizedStore, number: int) -> tuple[float, ...]:
    tokens = store.run.manifests["tokens"]
    target = tokens.ledger.figures["train tokens"] // number
    # A seed of its own, so that no shard of another cut is taken for one of this.
    recipe = store.with_settings(shards__target_tokens=str(target), shards__seed=str(1_000 + number))
    run = run_metered(recipe, store.lock, store.place)
    shards, cost = run.manifests["shards"], run.costs["shards"]
    assert shards.fingerprint != store.run.manifests["shards"].fingerprint
    shutil.rmtree(store.place.full_path(shards.folder))
    return (store.megabytes, len(shards.parts), cost.seconds, tokens.rows("tokens"), cost.rows, cost.unpacked / 1e6)


def parts_law(home: Home, sizes: Sizes) -> Law:
    """Measure the stages after deduplication against the number of parts, for one text and number of shards."""
    middle = home.store(sizes.megabytes[len(sizes.megabytes) // 2])
    size_bytes = sum(f.size_bytes for group in middle.lock.generations for files in group.values() for f in files)
    target = middle.run.manifests["tokens"].ledger.figures["train tokens"] // sizes.shards[-1]
    rows: list[tuple[float | str, ...]] = []
    for number in sizes.cuts:
        cut = {"documents__part_bytes": str(size_bytes // number), "shards__target_tokens": str(target)}
        with tempfile.TemporaryDirectory(dir=home.folder) as folder:
            run = run_metered(middle.with_settings(**cut), middle.lock, Place(folder))
        parts = len(run.manifests["corpora"].parts)
        for kind in (kind for kind in run.costs if kind not in ("documents", "signatures", "verdicts")):
            cost = run.costs[kind]
            made = len(run.manifests[kind].parts)
            rows.append((parts, kind, made, cost.seconds, cost.opened, cost.rows, cost.unpacked / 1e6))
    heads = ("parts", "stage", "its parts", "CPU s", "files opened", "rows read", "MB unpacked")
    title = f"parts: the stages after deduplication against the number of parts, {middle.megabytes:g} MB of text"
    return Law(title=title, heads=heads, rows=tuple(rows))


def trace_law(home: Home, sizes: Sizes) -> Law:
    """Measure one example's documents, and one document's examples; the mean of a few, each in a new process."""
    rows = [row for size in sizes.megabytes for row in _trace_rows(home.store(size), sizes.lookups)]
    heads = ("MB of text", "from", "CPU s", "rows held", "rows read", "MB unpacked")
    return Law(title=f"trace: one look-up in a new process, the mean of {sizes.lookups}", heads=heads, rows=tuple(rows))


def _trace_rows(store: SizedStore, lookups: int) -> Iterator[tuple[float | str, ...]]:
    place, shards, held = store.place, store.run.manifests["shards"], store.run.manifests["corpora"].rows("documents")
    shard_set = ShardSet(place, shards)
    examples = random.Random(0).choices(range(len(shard_set)), k=lookups)
    ids = [shard_set[index].documents[0].hex() for index in examples]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        forward = list(processes.map(partial(_trace_example, place, shards), examples))
        back = list(processes.map(partial(_trace_document, place, shards), ids))
    assert [id for id, _ in forward] == ids, "an example is traced to a document that it does not hold"
    assert all(index in hits for index, (hits, _) in zip(examples, back, strict=True)), "an example is not found"
    for name, costs in (("an example", [cost for _, cost in forward]), ("a document", [cost for _, cost in back])):
        cost = reduce(Cost.plus, costs)
        yield (store.megabytes, name, cost.seconds / lookups, held, cost.rows // lookups, cost.unpacked / lookups / 1e6)


def _trace_example(place: Place, shards: Manifest, index: int) -> tuple[str, Cost]:
    """Return the first document of an example, looked up in the corpus."""
    with metered() as meters:
        before = meters.read()
        anchor, *_ = trace_example(ShardSet(place, shards), index)
        return anchor.document.id.hex(), meters.read().minus(before)


def _trace_document(place: Place, shards: Manifest, id: str) -> tuple[list[int], Cost]:
    """Return the training examples that hold a document."""
    with metered() as meters:
        before = meters.read()
        _, examples = trace_document(Artifact(place=place, manifest=shards), id)
        return examples["train"], meters.read().minus(before)


def planning_law(home: Home, sizes: Sizes) -> Law:
    """Measure manifests of many parts: each part is like one that a run built, with files of its size and no bytes."""
    store = home.store(WARM_MEGABYTES)
    like = store.run.manifests["corpora"]
    record = like.parts[0].record
    assert record is not None
    built = read_record(store.place, like.stage_folder, record.path)
    rows = [_planning_row(home.folder, like, built, number) for number in sizes.parts]
    heads = ("parts", "manifest MB", "write", "read", "whole", "next", "interrupted")
    title = (
        "planning: CPU seconds of writing and reading a manifest, and of comparing a stage with the store (survey and "
        "reason):\nwhose artifact is whole, whose parts are those of another one but for one more, which was "
        "interrupted at the end"
    )
    return Law(title=title, heads=heads, rows=tuple(rows))


def _planning_row(home: Path, like: Manifest, built: PartRecord, number: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory(dir=home) as folder:
        place = Place(folder)
        stage, longer = _stage(like, number), _stage(like, number + 1)
        path = f"{stage.folder}/{MANIFEST}"
        parts = tuple(_put_part(place, stage, plan, built) for plan in stage.parts)
        manifest = replace(like, fingerprint=stage.fingerprint, parts=parts)
        write = _seconds(lambda: place.write(path, manifest.to_bytes()))
        size_bytes = place.size(path) or 0
        read = _seconds(lambda: _check_equal(read_manifest(place, stage.folder), manifest))
        whole = _seconds(lambda: _look(place, stage, missing=0))
        following = _seconds(lambda: _look(place, longer, missing=1))
        place.delete(path)
        interrupted = _seconds(lambda: _look(place, stage, missing=0))
    return (number, size_bytes / 1e6, write, read, whole, following, interrupted)


def _stage(like: Manifest, number: int) -> Stage:
    """Return a stage of so many parts; another number of them is another artifact."""
    plans = (PartPlan(name=f"g001-texts-{part:06d}", key=part, labels=like.parts[0].labels) for part in range(number))
    return Stage(
        kind=like.kind,
        name=like.name,
        build_version=like.build_version,
        settings={"parts": number},
        parents=like.parents,
        libraries=like.libraries,
        parts=tuple(plans),
        build=_build_nothing,
        part_settings={},
    )


def _build_nothing(writer: PartWriter, plan: PartPlan) -> Ledger:
    raise AssertionError("nothing is to be built here")


def _put_part(place: Place, stage: Stage, plan: PartPlan, built: PartRecord) -> Part:
    """Put a part like the one that was built: files of its size without bytes, and its record."""
    folder = Path(place.full_path(stage.stage_folder))
    (folder / stage.fingerprint / "parts").mkdir(parents=True, exist_ok=True)
    files, checks = [], {}
    for file in built.part.files:
        path = f"{stage.fingerprint}/{plan.name}.{file.table}.arrow"
        files.append(replace(file, path=path))
        checks[path] = built.checks[file.path]
        with (folder / path).open("wb") as made:
            made.truncate(file.size_bytes)
    part = replace(built.part, name=plan.name, fingerprint=stage.part_fingerprint(plan), files=tuple(files))
    data, address = PartRecord(part=part, checks=checks).to_bytes(), record_path(stage.fingerprint, plan.name)
    (folder / address).write_bytes(data)
    return replace(part, record=RecordAddress(path=address, digest=digest_in(data)))


def _look(place: Place, stage: Stage, missing: int) -> None:
    """Do what `cloze plan` and a run do first with every stage."""
    survey = survey_stage(place, stage)
    explain(stage, survey)
    assert len(survey.missing) == missing, f"{len(survey.missing)} parts are missing instead of {missing}"


def _check_equal(read: Manifest | None, written: Manifest) -> None:
    assert read is not None and len(read.parts) == len(written.parts) and read.parts[-1] == written.parts[-1]


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


# The command.

LAWS: Mapping[str, Callable[[Home, Sizes], Law]] = {
    "run": run_law,
    "shards": shards_law,
    "parts": parts_law,
    "trace": trace_law,
    "planning": planning_law,
}


def measure(names: Sequence[str], sizes: Sizes, folder: Path, books: Path | None = None) -> Iterator[Law]:
    """Yield the laws one after another; missing stores are built in the folder."""
    with tempfile.TemporaryDirectory() as unused:
        sized_store(Path(unused), WARM_MEGABYTES, books)  # loads the kernels
    home = Home(folder, books)
    yield from (LAWS[name](home, sizes) for name in names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the requested laws, each when it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.laws", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("laws", nargs="+", choices=LAWS, metavar="law", help=", ".join(LAWS))
    parser.add_argument("--megabytes", nargs="+", type=float, default=Sizes().megabytes, help="sizes of the text")
    parser.add_argument("--shards", nargs="+", type=int, default=Sizes().shards, help="numbers of shards")
    parser.add_argument("--cuts", nargs="+", type=int, default=Sizes().cuts, help="numbers of parts of a corpus")
    parser.add_argument("--parts", nargs="+", type=int, default=Sizes().parts, help="numbers of parts of a manifest")
    parser.add_argument("--folder", type=Path, help="where stores are kept (default: they are not)")
    parser.add_argument("--books", type=Path, help="novels in .txt files, of which three documents in four are made")
    parsed = parser.parse_args(arguments)
    sizes = Sizes(
        megabytes=tuple(parsed.megabytes),
        shards=tuple(parsed.shards),
        cuts=tuple(parsed.cuts),
        parts=tuple(parsed.parts),
    )
    with tempfile.TemporaryDirectory() as unused:
        for law in measure(parsed.laws, sizes, parsed.folder or Path(unused), parsed.books):
            print("\n".join(law.lines()), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
