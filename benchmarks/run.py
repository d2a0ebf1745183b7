"""The whole run, stage by stage in this process: of the sample Wikipedia that comes with Cloze, and of the texts.

No orchestrator and no workers: the CPU time of the stages' own work is measured, from raw files to
shards, with their writing, digests and manifests. Every round begins with an empty store. The texts are in
one file of JSON lines, a document a line.
"""

import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measuring import Report, Row, figure, main
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import Outcome, run_recipe, stages_without

SETTINGS = """
[vocabulary]
size = 8000

[shards]
masking = { kind = "static", unit = "whole-word" }
"""
SAMPLE = f"""
name = "sample"

[[source]]
kind = "wikipedia"
path = "sample:wikipedia/samplewiki-20260101-pages-articles-multistream.xml.bz2"
{SETTINGS}"""
TEXTS = f"""
name = "texts"

[[source]]
kind = "files"
name = "texts"
path = "texts.jsonl"
{SETTINGS}"""
BUILT = stages_without("fits", "models")
WHOLE = "the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One run: what it built, and CPU seconds by kind of stage and of the whole."""

    outcome: Outcome
    seconds: dict[str, float] = field(default_factory=dict)


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Measure both runs."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        (home / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
        return [_measure(recipe, home, rounds) for recipe in (SAMPLE, TEXTS)]


def _measure(text: str, home: Path, rounds: int) -> Report:
    recipe = parse_recipe(text, home / "recipe.toml", {})
    lock = resolve(recipe, Lock(), StatCache()).lock
    stores = (str(home / f"{recipe.name}-{number}") for number in itertools.count())
    first = run_once(recipe, lock, Place(next(stores)))
    runs = [run_once(recipe, lock, Place(next(stores))) for _ in range(rounds)]
    for run in runs:
        assert run.outcome.shards == first.outcome.shards, "two runs of one recipe ended in other shards"
    raw = sum(file.size_bytes for generation in lock.generations for files in generation.values() for file in files)
    documents = sum(manifest.rows("documents") for manifest in first.outcome.documents)
    examples = first.outcome.shards.rows("examples")
    return Report(
        title=f"run of {recipe.name}: {figure(raw / 1e6)} MB raw, medians of {rounds} rounds",
        amounts={"MB": raw / 1e6, "documents": documents},
        rows=tuple(Row(name=name, seconds=tuple(run.seconds[name] for run in runs)) for name in (WHOLE, *BUILT)),
        notes=(
            f"{documents} documents, {examples} examples; the shards' manifest is the same in all {rounds + 1} runs",
            f"the run before the measured ones, which loads what is not loaded: {figure(first.seconds[WHOLE])} CPU s",
        ),
    )


def run_once(recipe: Recipe, lock: Lock, place: Place) -> Timed:
    """Run a recipe on an empty store."""
    seconds = dict.fromkeys((WHOLE, *BUILT), 0.0)

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        manifests = []
        for stage in stages:
            start = time.process_time()
            manifests.append(build_stage(place, stage))
            seconds[stage.kind] += time.process_time() - start
        return manifests

    start = time.process_time()
    outcome = run_recipe(place, recipe, lock, perform)
    seconds[WHOLE] = time.process_time() - start
    return Timed(outcome=outcome, seconds=seconds)


if __name__ == "__main__":
    main(benchmark)
