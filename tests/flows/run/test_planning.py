"""`cloze plan`: what it says is what a run then does, and saying it changes nothing."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from labelled_world import MODEL, TASK, copied, labelled_file, trainer_here, world_of
from small_recipe import KINDS, RECIPE, SHARED_KINDS, Run, World, fill, new_world, page, prose

from corpora.store.places.place import Place
from flows.run.plan_run import PlannedStage, plan_run
from flows.run.stage_kinds import STAGES


def plan(world: World, **overrides: str) -> list[PlannedStage]:
    """The plan of a run; it must leave the store as it was."""
    recipe, lock = world.resolved(**overrides)
    place = Place(recipe.store)
    before = place.list_files("")
    planned = plan_run(place, recipe, lock)
    assert place.list_files("") == before
    return planned


def agrees(planned: list[PlannedStage], run: Run) -> None:
    """A plan against the run after it: the same stages in order with the same reasons, as far as it looked."""
    looked = [entry for entry in planned if entry.state != "follows"]
    done = run.stages[: len(looked)]
    assert [(e.stage, e.missing, e.reason, e.state == "reuse") for e in looked] == [
        (s.stage.stage_folder, len(s.built), s.reason, s.reused) for s in done
    ]
    # What follows is every later kind, and nothing that was built escaped the plan.
    follows = [*dict.fromkeys(entry.stage.split("/")[0] for entry in planned[len(looked) :])]
    assert follows == list(KINDS[len(KINDS) - len(follows) :])
    assert {s.stage.kind for s in run.stages[len(looked) :] if s.built} <= set(follows)


def states(planned: list[PlannedStage]) -> dict[str, str]:
    """The state of each kind that is not reused."""
    return {entry.stage.split("/")[0]: entry.state for entry in planned if entry.state != "reuse"}


def test_a_plan_of_an_empty_store(world: World) -> None:
    """Fails if the plan looks at what cannot be there, or misses a stage."""
    planned = plan(world)
    assert [entry.state for entry in planned] == ["build", "build"] + ["follows"] * len(KINDS)
    assert [entry.missing for entry in planned[:2]] == [4, 1]
    assert planned[0].reason == "new"
    agrees(planned, world.run())


def test_a_plan_of_a_whole_store(built: World) -> None:
    """Fails if planning and building see another fingerprint, or a limit that decides no byte is part of it."""
    changes = {"documents__max_damaged_share": "0.5"}
    planned = plan(built, **changes)
    assert {entry.state for entry in planned} == {"reuse"}
    assert [entry.stage.split("/")[0] for entry in planned] == ["documents"] * 2 + ["signatures"] * 2 + list(
        SHARED_KINDS
    )
    agrees(planned, built.run(**changes))


@pytest.mark.parametrize(
    ("key", "value", "first"),
    [
        ("rules__gopher__min_words", "55", "documents"),
        ("duplicates__permutations", "130", "signatures"),
        ("duplicates__threshold", "0.9", "verdicts"),
        ("vocabulary__lowercase", "false", "counts"),
        ("vocabulary__size", "300", "vocabularies"),
        ("shards__copies", "1", "shards"),
    ],
)
def test_a_changed_setting(built: World, key: str, value: str, first: str) -> None:
    """Fails if the plan stops too early or too late or gives another reason than the run, or a run builds other
    stages than those that follow.
    """
    changes: dict[str, Any] = {key: value}
    planned = plan(built, **changes)
    found = states(planned)
    assert found.pop(first) == "build"
    assert found == dict.fromkeys(KINDS[KINDS.index(first) + 1 :], "follows")
    run = built.run(**changes)
    agrees(planned, run)
    if first not in ("documents", "signatures", "verdicts"):  # the rows of these come out as they were
        assert {stage.stage.kind for stage in run.stages if stage.built} == {first, *found}


def test_new_raw_files_are_new_data_and_not_a_new_version(built: World) -> None:
    """Fails if the plan mixes up why a stage is built."""
    built.put("pages", "pages-9", [page(str(n), prose(n)) for n in range(300, 306)])
    planned = plan(built)
    [entry] = [entry for entry in planned if entry.state == "build"]
    assert (entry.stage, entry.missing, entry.parts) == ("documents/pages", 1, 1)
    assert entry.reason.startswith("new data: ") and "version" not in entry.reason
    agrees(planned, built.run())


def test_a_setting_that_all_generations_share(built: World) -> None:
    """Fails if the plan sees the first generation's documents alone, though a run builds them all again."""
    built.put("pages", "pages-9", [page(str(n), prose(n)) for n in range(300, 306)])
    built.run()
    planned = plan(built, rules__gopher__min_words="55")
    assert [(e.stage, e.missing) for e in planned if e.state == "build"] == [
        ("documents/pages", 4),
        ("documents/notes", 1),
        ("documents/pages", 1),
    ]
    agrees(planned, built.run(rules__gopher__min_words="55"))


def test_an_interrupted_stage(built: World, first: Run) -> None:
    """Fails if finished parts without a manifest are not seen."""
    manifest = first.of("tokens")[0].manifest
    built.place.delete(f"{manifest.folder}/manifest.json")
    built.place.delete(f"{manifest.folder}/parts/{manifest.parts[1].name}.json")
    planned = plan(built)
    [entry] = [e for e in planned if e.state not in ("reuse", "follows")]
    assert (entry.stage, entry.state, entry.missing, entry.parts) == ("tokens/small", "go on", 1, 5)
    assert entry.reason == "new; resumes from 4 finished parts"
    agrees(planned, built.run())


SEVERAL = """
[repeated_lines]
enabled = true

[[vocabulary]]
name = "words"
size = 400

[[vocabulary]]
name = "more-words"
size = 300

[[vocabulary]]
name = "bytes"
algorithm = "byte-bpe"
size = 400

[[shards]]
name = "notes"
vocabulary = "more-words"
sources = ["notes"]
length = 64

[[shards]]
name = "all"
vocabulary = "bytes"
length = 64
"""
TABLES = "[vocabulary]\nsize = 400\n\n[shards]\nlength = 64\ncopies = 2\n"
FEW_EPOCHS = TASK.replace("epochs = 8", "epochs = 1").replace("[1, 2]", "[1]")
RECIPES = {  # what makes a run have other stages; with a model, the trainer works in this process
    "plain": RECIPE,
    "several of each": RECIPE.replace(TABLES, SEVERAL),
    "brought": RECIPE.replace(TABLES, SEVERAL.replace("size = 300", 'path = "brought/vocab.txt"')),
    "tasks": MODEL + RECIPE + FEW_EPOCHS + FEW_EPOCHS.replace("boat", "ship").replace("predict", "embed"),
}
MORE = ("tasks", "plain", "several of each", "plain, grown")


@contextmanager
def gone(world: World, kind: str) -> Iterator[None]:
    """A store without the artifacts of a kind, for the time of the block."""
    folder = Path(world.place.address) / kind
    folder.rename(folder.with_name("aside"))
    yield
    folder.with_name("aside").rename(folder)


@pytest.mark.parametrize(
    "called", ["brought", "several of each, grown", *(pytest.param(n, marks=pytest.mark.long) for n in MORE)]
)
def test_a_plan_announces_what_a_run_comes_to(tmp_path: Path, called: str) -> None:
    """Fails if a stage of a run is missing in the plan, or the other way round, whatever the store has already."""
    name, _, grown = called.partition(", ")
    world = fill(new_world(tmp_path, RECIPES[name]))
    words = dict.fromkeys(f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst")
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    for file, seed in (("train", 1), ("dev", 2)):
        labelled_file(tmp_path / "labelled" / f"{file}.tsv", seed)
    planned = plan(world)
    with trainer_here() if name == "tasks" else nullcontext():
        run = world.run()
        if grown:
            world.put("pages", "pages-9", [page(str(n), prose(n)) for n in range(300, 306)])
            planned, run = plan(world), world.run()
    assert {entry.stage for entry in planned} == {stage.stage.stage_folder for stage in run.stages}
    whole = {entry.stage for entry in plan(world)}
    assert whole == {stage.stage.stage_folder for stage in run.stages}
    for kind in sorted({stage.stage.kind for stage in run.stages}, key=[*STAGES].index):
        with gone(world, kind):
            partly = plan(world)
        # Without a corpus no earlier generation is settled, so that a run goes through all of them again.
        assert {entry.stage for entry in partly} >= whole, kind
        assert grown or {entry.stage for entry in partly} == whole, kind
        assert {entry.state for entry in partly if entry.stage.startswith(f"{kind}/")} != {"reuse"}


def test_a_plan_announces_each_task_and_its_answers(learnt: Run, tmp_path: Path) -> None:
    """Fails if of several tasks, which are learnt one after another, a plan stops at the first that is missing."""
    run = copied(learnt, tmp_path / "world")
    two = replace(world_of(run), text=world_of(run).text + TASK.replace("boat", "ship"))
    stages = {stage.stage.stage_folder for stage in run.stages}
    for world, more in ((world_of(run), set[str]()), (two, {"tasks/small-ship", "answers/small-ship"})):
        for kind in ("models", "tasks", "answers"):
            with gone(world, kind):
                assert {entry.stage for entry in plan(world)} == stages | more
