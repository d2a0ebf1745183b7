"""Compares the estimates of `cloze plan` with the outcome: documents, tokens, bytes and processor time of each stage.

    python -m benchmarks.estimates FOLDER              each folder in it by its name, and what is shipped for the demo
    python -m benchmarks.estimates FOLDER books demo   some of them

FOLDER holds raw files of the five sources and of domains, in folders named `books`, `wikipedia`, `cc-news`,
`openwebtext`, `stories` and `domains`. Each is estimated as by `cloze plan`, built in this process into an empty store,
and built once more, because processor time is that of the faster build. Starting a process is in neither figure.
Figures below the bounds of `SMALL`, or half a second of processor time, mean nothing and are left out.
"""

import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe, shipped_recipes
from flows.run.estimates.figures import Estimates
from flows.run.estimates.whole import estimate_run
from flows.run.estimates.work import load_seconds
from flows.run.pipeline import run_recipe
from flows.run.plan.plan import plan_run
from flows.run.record.ledger_balance import num_tokens, size_bytes

WITHIN = 0.25
SMALL = {"documents": 20, "tokens": 2_000, "disk_bytes": 50_000}  # below, a difference says nothing
SMALL_CPU = 0.5  # below, other processes of the machine dominate
ROWS = {  # by kind, the table that has one row for each document
    "documents": "documents",
    "corpora": "documents",
    "signatures": "signatures",
    "verdicts": "verdicts",
    "tokens": "tokens",
}
REST = """
[language]
keep = []
[documents]
max_rule_share = 1.0
max_damaged_share = 1.0
[vocabulary]
size = 8000
[shards]
length = 128
masking = { kind = "dynamic" }
"""
SOURCES = {
    "books": [("bookcorpus", "txt")],
    "wikipedia": [("wikipedia", "enwiki-pages-*.bz2"), ("wikipedia", "enwikt*.bz2"), ("wikipedia", "ltgwiki*.bz2")],
    "cc-news": [("cc-news", "warc")],
    "openwebtext": [("openwebtext", "**/*.xz")],
    "stories": [("stories", "common-crawl-text/*.jsonl*")],
    "domains": [("files", "**/*.txt"), ("files", "**/*.jsonl*")],
}


class EstimateAndFact(NamedTuple):
    """One measure of one stage: the estimate, and the actual value."""

    stage: str
    measure: str
    estimated: float
    came: float

    @property
    def error(self) -> float:
        """By how much the estimate was too high, as a share of the actual value; infinite if that is zero."""
        return self.estimated / self.came - 1 if self.came else math.inf


def facts_of(manifests: Sequence[Manifest]) -> dict[str, float | None]:
    """Return the actual values of a stage's generations; None for what it does not count."""
    kind, newest = manifests[0].kind, manifests[0]
    tokens = num_tokens(newest.parts) if kind == "tokens" else None
    return {
        "documents": sum(manifest.rows(ROWS[kind]) for manifest in manifests) if kind in ROWS else None,
        "tokens": newest.ledger.figures.get("example tokens") if kind == "shards" else tokens,
        "disk_bytes": sum(map(size_bytes, manifests)),
    }


def recipe_of(name: str, folder: Path, store: Path) -> Recipe:
    """Return a recipe for one of the folders, or the demo without its model."""
    if name == "demo":
        text = shipped_recipes()["demo"]
        text = text[: text.index("[model]")]
    else:
        tables = (
            f'[[source]]\nkind = "{kind}"\nname = "s{number}"\npath = "{folder / name / pattern}"\non_damage = "skip"\n'
            for number, (kind, pattern) in enumerate(SOURCES[name])
            if any((folder / name).glob(pattern))
        )
        text = f'name = "{name}"\n' + "".join(tables) + REST
    return parse_recipe(text, store.parent / "recipe.toml", {}, str(store))


def build(recipe: Recipe, lock: Lock, store: Path) -> tuple[list[Manifest], dict[str, float]]:
    """Build everything of a recipe, in this process; also returns the processor seconds of each stage."""
    place, built, seconds = Place(str(store)), list[Manifest](), dict[str, float]()

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            began = time.process_time()
            built.append(build_stage(place, stage))
            seconds[stage.stage_folder] = seconds.get(stage.stage_folder, 0.0) + time.process_time() - began
        return built[len(built) - len(stages) :]

    run_recipe(place, recipe, lock, perform)
    return built, seconds


def compare(name: str, folder: Path) -> tuple[Estimates, float, list[EstimateAndFact]]:
    """Estimate, build twice, and put side by side; also returns the cost of the estimate."""
    with tempfile.TemporaryDirectory() as scratch:
        recipe = recipe_of(name, folder, Path(scratch) / "store")
        lock = resolve(recipe, Lock(), StatCache()).lock
        place, began = Place(recipe.store), time.process_time()
        estimates = estimate_run(place, recipe, lock, plan_run(place, recipe, lock), 1)
        took = time.process_time() - began
        manifests, first = build(recipe, lock, Path(scratch) / "store")
        _, second = build(recipe, lock, Path(scratch) / "again")
        cpu = {stage: min(seconds, second[stage]) for stage, seconds in first.items()}
        return estimates, took, [*_compared(estimates, manifests, cpu)]


def _compared(
    estimates: Estimates, manifests: Sequence[Manifest], cpu: Mapping[str, float]
) -> Iterator[EstimateAndFact]:
    for stage in estimates.stages:
        built = [manifest for manifest in manifests if manifest.stage_folder == stage.stage]
        if not built:
            continue
        for measure, came in facts_of(built).items():
            estimated = getattr(stage, measure)
            if estimated is not None and came is not None and max(estimated, came) >= SMALL[measure]:
                yield EstimateAndFact(stage=stage.stage, measure=measure, estimated=estimated, came=came)
        own = stage.cpu_seconds - load_seconds(stage.stage.partition("/")[0], 1, 1)
        if max(own, cpu[stage.stage]) >= SMALL_CPU:
            yield EstimateAndFact(stage=stage.stage, measure="cpu_seconds", estimated=own, came=cpu[stage.stage])


def main(arguments: Sequence[str]) -> None:
    """Print a table for each of the folders."""
    folder, names = Path(arguments[0]), arguments[1:] or [*SOURCES, "demo"]
    for name in names:
        estimates, took, rows = compare(name, folder)
        print(f"\n{name}: {estimates.raw_bytes / 1e6:.1f} MB of raw files; estimated in {took:.1f} CPU s")
        for line in estimates.basis:
            print(f"  {line}")
        for row in rows:
            mark = "" if abs(row.error) <= WITHIN else "  <--"
            print(f"  {row.stage:28} {row.measure:12} {row.estimated:14,.1f} {row.came:14,.1f} {row.error:+7.0%}{mark}")
        within = sum(abs(row.error) <= WITHIN for row in rows)
        print(f"  {within} of {len(rows)} figures within {WITHIN:.0%}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
