"""A run on a store that holds something already: only what changed is built again, and it says why."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from small_recipe import KINDS, PAGE_FILES, Run, World, build_here

from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_part
from flows.integrity.inventory import find_artifact_faults
from flows.run.plan_run import plan_run

LATER = ("verdicts", "corpora", "counts", "vocabularies", "measures", "tokens", "shards")


def built_kinds(run: Run) -> dict[str, int]:
    """How many parts of each kind a run built; kinds of which it built none are left out."""
    counts = {stage.stage.kind: len(run.built(stage.stage.kind)) for stage in run.stages}
    return {kind: count for kind, count in counts.items() if count}


def faults(run: Run) -> list[tuple[str, str]]:
    """(artifact, part) of every fault in the run's artifacts."""
    return [
        (fault.artifacts[0], fault.part)
        for manifest in run.manifests
        for fault in find_artifact_faults(run.place, manifest)
    ]


def test_a_second_run_builds_nothing(world: World) -> None:
    """Fails if a stage's identity holds something that two runs do not share, as the name of a raw file."""
    first = world.run()
    (world.folder / "raw/pages/pages-0.jsonl").rename(world.folder / "raw/pages/zz-moved.jsonl")
    second = world.run()
    assert all(stage.built for stage in first.stages)
    assert all(stage.reused and not stage.built for stage in second.stages)
    assert second.bytes() == first.bytes()
    assert first.stages[0].reason == "new"


@pytest.mark.parametrize(
    ("kind", "harm"), [(kind, "cut" if number % 2 else "delete") for number, kind in enumerate(KINDS)]
)
def test_a_lost_file_costs_its_part_alone(built: World, first: Run, kind: str, harm: str) -> None:
    """Fails if a plan or a run overlooks the loss, where more than the part is built, or it comes out otherwise."""
    manifest = first.of(kind)[0].manifest
    part = manifest.parts[len(manifest.parts) // 2]
    path = Path(built.place.to_full_path(f"{manifest.stage_folder}/{part.files[-1].path}"))
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    assert faults(first) == [(manifest.folder, part.name)]
    planned = [entry for entry in plan_run(built.place, *built.resolved()) if entry.state not in ("reuse", "follows")]
    again = built.run()
    assert again.built(kind) == [f"{manifest.name}/{part.name}"]
    assert built_kinds(again) == {kind: 1}
    reason = f"files are missing or damaged in parts {part.name}"
    assert again.of(kind)[0].reason == reason
    assert [(entry.state, entry.missing, entry.reason) for entry in planned] == [("mend", 1, reason)]
    assert again.bytes() == first.bytes()
    assert (Path(built.place.to_full_path(manifest.folder)) / "manifest.json").read_bytes() == manifest.to_bytes()
    assert faults(again) == []


def test_a_lost_manifest_costs_nothing_but_itself(built: World, first: Run) -> None:
    """Fails if finished parts are not found by their own records."""
    for manifest in first.manifests:
        built.place.delete(f"{manifest.folder}/manifest.json")
    again = built.run()
    assert built_kinds(again) == {}
    assert again.bytes() == first.bytes()


def test_a_changed_deduplication_parses_and_sketches_nothing(built: World, first: Run) -> None:
    """Fails if documents or sketches know the threshold, or where what follows does not."""
    again = built.run(duplicates__threshold="1.0")
    assert [stage.reused for stage in again.of("documents") + again.of("signatures")] == [True] * 4
    assert set(built_kinds(again)) == set(LATER)
    assert again.of("verdicts")[0].reason == "settings: duplicates.threshold 0.8 -> 1.0"
    # The near copy stays now: of the corpus' parts only the one that holds it was written again.
    assert again.built("corpora") == ["small/g001-notes-00000"]
    assert again.outcome.corpus.count_rows("documents") == first.outcome.corpus.count_rows("documents") + 1
    assert again.of("corpora")[0].reason.endswith(f"{PAGE_FILES} parts are kept")


def test_a_changed_rule_of_one_source_parses_that_source_alone(built: World, first: Run) -> None:
    """Fails if one source's settings enter another's identity."""
    own = 'name = "notes"\nrules.gopher.min_words = 165'
    changed = World(folder=built.folder, text=built.text.replace('name = "notes"', own))
    again = changed.run()
    assert again.built("documents") == ["notes/00000"]
    assert again.built("signatures") == ["notes/00000"]
    assert [stage.reused for stage in again.of("documents")] == [True, False]
    assert again.of("documents")[1].reason == "settings: rules.gopher.min_words 50 -> 165"
    notes = [run.outcome.documents[1].count_rows("documents") for run in (first, again)]
    assert notes[1] < notes[0]


def test_an_interrupted_build_goes_on_where_it_stopped(world: World, finished: Run) -> None:
    """Fails if a finished part is not found again, or a half-built stage counts as done."""

    class Interrupted(Exception):
        pass

    for limit in (3, 4, 2, 5):
        left = iter(range(limit))

        def build_some(place: Place, stage: Stage, plans: Sequence[PartPlan], left: Iterator[int] = left) -> None:
            for plan in plans:
                if next(left, None) is None:
                    raise Interrupted
                build_part(place, stage, plan)

        with pytest.raises(Interrupted):
            world.run(build_some)
    last = world.run(build_here)
    assert last.bytes() == finished.bytes()
    left_over = sum(len(stage.built) for stage in last.stages)
    assert left_over == sum(len(stage.built) for stage in finished.stages) - (3 + 4 + 2 + 5)
    assert any("resumes from" in stage.reason for stage in last.stages)
