"""Estimates of `cloze plan` are compared with what a run then takes; some plans are refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from labelled_world import LABELLED, UNUSABLE, tasks_world
from small_recipe import World, build_here, new_world, page, prose, run_lock

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.recipes.lock import ResolvedLock
from flows.run.estimates import room
from flows.run.estimates.figures import Estimates, StageEstimate
from flows.run.estimates.room import keep_for_run, left_by_plan, refuse_what_does_not_fit, refuse_without_room
from flows.run.estimates.whole import estimate_run
from flows.run.estimates.work import surely_repeated
from flows.run.plan.plan import plan_run
from flows.run.record.ledger_balance import size_bytes

WITHIN = 0.25


@pytest.fixture
def few(tmp_path: Path) -> World:
    """Two sources, of one of which documents are copies and too short ones."""
    world = new_world(tmp_path)
    world.put("pages", "a", [page(str(n), prose(n)) for n in range(40)])
    world.put("notes", "a", [{"body": prose(n % 30 + 100), "title": "t"} for n in range(40)])
    return world


def estimate(world: World) -> Estimates:
    recipe, lock = world.resolved()
    place = Place(recipe.store)
    before = place.sizes("")
    found = estimate_run(place, recipe, lock, plan_run(place, recipe, lock), 2)
    assert place.sizes("") == before
    assert json.dumps(found.to_json())
    return found


def test_a_source_that_is_read_whole_is_estimated_as_it_comes(few: World) -> None:
    """Fails where documents, tokens or bytes are lost or counted twice on the way from the sample to the stages."""
    found = {stage.stage: stage for stage in estimate(few).stages}
    run = few.run()
    built = {stage.stage.stage_folder: stage.manifest for stage in run.stages}
    assert set(found) == set(built)
    for name, manifest in built.items():
        stage = found[name]
        if manifest.kind in ("documents", "corpora"):
            assert stage.documents == manifest.rows("documents"), name
        figures = manifest.ledger.figures
        if manifest.kind == "tokens":
            tokens = sum(
                part.ledger.figures[f"{split} tokens"] for part in manifest.parts for split in ("train", "held-out")
            )
            assert stage.tokens == pytest.approx(tokens, rel=0.02)
        if manifest.kind == "shards":
            assert stage.tokens == pytest.approx(figures["example tokens"], rel=0.1)
        if (size := size_bytes(manifest)) > 20_000:
            assert stage.disk_bytes == pytest.approx(size, rel=WITHIN), name
        assert stage.memory_bytes > 500_000_000 and stage.cpu_seconds > 0 and stage.seconds > 0


def test_nothing_is_estimated_of_what_is_there(few: World) -> None:
    """Fails where a sample is taken though nothing is to be built, or new data is estimated as if all were new."""
    few.run()
    assert estimate(few).stages == ()
    few.put("pages", "b", [page(str(n), prose(n)) for n in range(300, 320)])
    found = {stage.stage: stage for stage in estimate(few).stages}
    assert "documents/notes" not in found and found["documents/pages"].documents == 20
    recipe, lock = few.resolved()
    run = run_lock(few.place, recipe, lock, build_here)
    corpus, tokens = run.of("corpora")[-1].manifest, run.of("tokens")[-1].manifest
    assert found["corpora/small"].documents == pytest.approx(len_of(run), rel=WITHIN)
    assert found["corpora/small"].disk_bytes < size_bytes(corpus)
    assert found["tokens/small"].disk_bytes < size_bytes(tokens)


def test_a_rule_that_would_stop_the_run_is_named_beforehand(few: World) -> None:
    """Fails where a plan estimates a run that ends at its first rule, or names a rule that stays within its bound."""
    assert estimate(few).stops == ()
    few.put("pages", "short", [page(str(n), f"The bell of ferry {n} is broken again.") for n in range(500, 640)])
    stops = estimate(few).stops
    assert stops[0] == "Source 'pages': rules: gopher.min_words drops 140 of 180 documents (78%)"
    assert "`cloze new NAME --template tickets`" in stops[1] and len(stops) == 2


def test_text_that_would_be_read_too_often_is_told_before_anything_is_built(few: World) -> None:
    """Fails where a plan or the start of a run says nothing of thousands of epochs, or a plan warns of a few."""
    model = '[model]\nfamily = "bert"\nsize = "tiny"\n\n[training]\n[[training.phase]]\n'
    told = {}
    for length in ("epochs = 3", "epochs = 70", 'tokens = "2T"'):
        world = replace(few, text=f"{few.text}\n{model}{length}\n")
        told[length] = " ".join(estimate(world).basis)
        assert bool(surely_repeated(*world.resolved())) == ("2T" in length)
    assert "reads its text" not in told["epochs = 3"]
    assert "reads its text about 140 times" in told["epochs = 70"] and "refused" not in told["epochs = 70"]
    assert "it is refused, unless max_epochs" in told['tokens = "2T"']


def test_a_sample_of_which_nothing_is_left_is_told(few: World) -> None:
    """Fails where a plan promises stages that its run does not come to."""
    world = replace(few, text=few.text.replace("[rules]", "[rules]\ngopher.min_words = 9_000\n"))
    found = estimate(world)
    assert "none of 40 records is left (rules: gopher.min_words 40)" in " ".join(found.stops)
    assert {stage.stage.split("/")[0] for stage in found.stages} == {"documents", "signatures"}


def test_shards_of_some_sources_grow_with_these(few: World) -> None:
    """Fails where the tokens of a shard set grow with sources that it does not read."""
    text = few.text.replace("[shards]", '[[shards]]\nname = "own"\nsources = ["notes"]')
    found = {stage.stage: stage for stage in estimate(replace(few, text=text)).stages}
    run = replace(few, text=text).run()
    came = run.manifest("shards").ledger.figures["example tokens"]
    assert found["shards/small-own"].tokens == pytest.approx(came, rel=0.1)


def test_a_text_whose_column_was_guessed_is_sampled_under_its_name(tmp_path: Path) -> None:
    """Fails where a plan reads a table otherwise than the run, or ends in a traceback where nothing can be read."""
    world = new_world(tmp_path)
    world.put("pages", "a", [{"n": n, "remark": prose(n)} for n in range(30)])
    world.put("notes", "a", [{"n": n} for n in range(30)])
    fields = [line for line in world.text.splitlines() if line.startswith("fields =")]
    guessed = replace(
        world, text=world.text.replace(fields[0], "").replace("max_damaged_share = 0.1", "max_damaged_share = 1.0")
    )
    found = {stage.stage: stage for stage in estimate(guessed).stages}
    assert found["documents/pages"].documents == 30
    world.put("pages", "a", [{"id": str(n)} for n in range(30)])
    world.put("notes", "a", [{"title": str(n)} for n in range(30)])
    assert "none of 30 records is left" in " ".join(estimate(world).stops)


def test_tasks_and_answers_follow_from_labelled_rows_and_documents(tmp_path: Path) -> None:
    """Fails where labelled rows, documents to answer or seeds are not counted, or have another model."""
    world = tasks_world(tmp_path)
    found = {stage.stage: stage for stage in estimate(world).stages}
    tasks, answers, model = found["tasks/small-boat"], found["answers/small-boat"], found["models/small"]
    assert tasks.documents == 2 * (LABELLED - UNUSABLE)
    assert 8 * 2 * 63 * 5 < tasks.tokens < 8 * 2 * 63 * 24  # epochs, seeds, rows, and up to max_length
    assert answers.documents == sum(found[f"documents/{name}"].documents for name in ("pages", "notes"))
    assert answers.tokens <= 24 * answers.documents
    assert model.disk_bytes > 16 * 32 * 400 and model.memory_bytes > 10**9
    seeds = replace(world, text=world.text.replace("[1, 2]", "[1, 2, 3, 4]"))
    more = {stage.stage: stage for stage in estimate(seeds).stages}["tasks/small-boat"]
    assert more.tokens == pytest.approx(2 * tasks.tokens, abs=2) and more.disk_bytes > 1.5 * tasks.disk_bytes


def len_of(run) -> int:  # type: ignore[no-untyped-def]
    return sum(part.rows("documents") for part in run.of("corpora")[-1].manifest.parts)


def stage(**figures: int) -> Estimates:
    return Estimates(stages=(StageEstimate(stage="verdicts/small", **figures),), workers=2)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_with_what_to_turn(few: World) -> None:
    """Fails where a run that fills the disk or the memory is let through, or one that fits is not."""
    store = few.recipe()
    refuse_without_room(store, stage(disk_bytes=1_000, memory_bytes=10**9), 2, 2 * 10**9)
    with pytest.raises(InputError, match=r"would write about 1000000\.0 GB into .*--store"):
        refuse_without_room(store, stage(disk_bytes=10**15), 2, 2 * 10**9)
    with pytest.raises(
        InputError, match=r"verdicts/small would take about 3\.0 GB .* has 2\.0 GB .* --workers 1 instead of 2"
    ):
        refuse_without_room(store, stage(memory_bytes=3 * 10**9), 2, 2 * 10**9)
    refuse_without_room(store, stage(memory_bytes=2 * 10**9 + 10**8), 1, 2 * 10**9)  # fewer workers take less


def test_a_run_without_a_plan_is_refused_by_what_is_known_at_no_cost(few: World) -> None:
    """Fails where such a run is refused that may fit, or a hopeless one begins."""
    recipe, lock = few.resolved()
    [file, *_] = lock.generations[0]["pages"]
    room.refuse_plainly_without_room(recipe, [file], 1)
    with pytest.raises(InputError, match="would come to at least"):
        room.refuse_plainly_without_room(recipe, [replace(file, size_bytes=10**17)], 1)
    with pytest.raises(InputError, match=r"Run with --workers \d+\.$"):
        room.refuse_plainly_without_room(recipe, [file], 100_000)


def test_a_plan_leaves_its_estimates_to_the_run_after_it_alone(few: World, tmp_path: Path) -> None:
    """Fails where a run takes the estimates of other raw files, or takes them twice."""
    recipe, lock = few.resolved()
    found = stage(disk_bytes=1_000)
    keep_for_run(tmp_path / "home", recipe, lock, found)
    few.put("pages", "b", [page("500", prose(500))])
    _, other = few.resolved()
    assert left_by_plan(tmp_path / "home", recipe, other) is None
    assert left_by_plan(tmp_path / "home", recipe, lock) == found
    refuse_what_does_not_fit(tmp_path / "home", recipe, ResolvedLock(lock=lock), 1)
    assert left_by_plan(tmp_path / "home", recipe, lock) is None
