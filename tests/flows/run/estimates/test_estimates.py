"""Estimates of `cloze plan` are compared with what a run then takes; some plans are refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from labelled_world import LABELLED, UNUSABLE, tasks_world
from small_recipe import World, new_world, page, prose

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.run.estimates import capacity as room
from flows.run.estimates.run_estimates import estimate_run
from flows.run.estimates.stage_estimates import Estimates, StageEstimate, estimate_stage
from flows.run.plan_run import plan_run
from flows.run.record.ledger_balance import count_tokens, sum_bytes


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
    before = place.list_files("")
    found = estimate_run(place, recipe, lock, plan_run(place, recipe, lock), 2)
    assert place.list_files("") == before
    assert json.dumps(found.to_json())
    return found


def near(estimated: float, came: float) -> None:
    """It is within a factor of two."""
    assert came / 2 < estimated < 2 * came, (estimated, came)


def test_estimates_are_near_what_a_run_takes(few: World) -> None:
    """Fails if documents, tokens or bytes are lost or counted twice on the way from the sample to the stages."""
    found = {stage.stage: stage for stage in estimate(few).stages}
    built = {stage.stage.stage_folder: stage.manifest for stage in few.run().stages}
    assert set(found) == set(built)
    for name, manifest in built.items():
        stage, figures = found[name], manifest.ledger.figures
        if manifest.kind in ("documents", "corpora"):
            near(stage.documents, manifest.count_rows("documents"))
        if manifest.kind == "tokens":
            near(stage.tokens, count_tokens(manifest.parts))
        if manifest.kind == "shards":
            near(stage.tokens, figures["example tokens"])
        if (size := sum_bytes(manifest)) > 20_000:
            near(stage.disk_bytes, size)
        assert stage.memory_bytes > 500_000_000 and stage.cpu_seconds > 0 and stage.seconds > 0


def test_nothing_is_estimated_of_what_is_there(few: World) -> None:
    """Fails if a sample is taken though nothing is to be built, or new data is estimated as if all were new."""
    before = few.run()
    assert estimate(few).stages == ()
    few.put("pages", "b", [page(str(n), prose(n)) for n in range(300, 320)])
    found = {stage.stage: stage for stage in estimate(few).stages}
    assert "documents/notes" not in found and found["documents/pages"].documents == 20
    assert found["corpora/small"].documents == pytest.approx(100)
    assert found["corpora/small"].disk_bytes < sum_bytes(before.manifest("corpora"))
    assert found["tokens/small"].disk_bytes < sum_bytes(before.manifest("tokens"))


def test_a_rule_that_would_stop_the_run_is_named_beforehand(few: World) -> None:
    """Fails if a plan estimates a run that ends at its first rule, or names a rule that stays within its bound."""
    assert estimate(few).stops == ()
    few.put("pages", "short", [page(str(n), f"The bell of ferry {n} is broken again.") for n in range(500, 640)])
    stops = estimate(few).stops
    assert stops[0] == "Source 'pages': rules: gopher.min_words drops 140 of 180 documents (78%)"
    assert "`cloze new NAME --template tickets`" in stops[1] and len(stops) == 2


def test_text_that_would_be_read_too_often_is_told(few: World) -> None:
    """Fails if a plan says nothing of thousands of epochs, or warns of a few."""
    model = f'{few.text}\n[model]\nfamily = "bert"\nsize = "tiny"\n\n[training]\n[[training.phase]]\n'
    lengths = ("epochs = 3", "epochs = 70", 'tokens = "2T"')
    few_times, often, endless = (" ".join(estimate(replace(few, text=model + length)).basis) for length in lengths)
    assert "reads its text" not in few_times and "it is refused, unless max_epochs" in endless
    assert "reads its text about 140 times" in often and "refused" not in often


def test_shards_of_some_sources_grow_with_these(few: World) -> None:
    """Fails if the tokens of a shard set grow with sources that it does not read."""
    text = few.text.replace("[shards]", '[[shards]]\nname = "own"\nsources = ["notes"]')
    found = {stage.stage: stage for stage in estimate(replace(few, text=text)).stages}
    run = replace(few, text=text).run()
    near(found["shards/small-own"].tokens, run.manifest("shards").ledger.figures["example tokens"])


def test_a_text_whose_column_was_guessed_is_sampled_under_its_name(tmp_path: Path) -> None:
    """Fails if a plan reads a table otherwise than the run, or ends in a traceback where nothing can be read."""
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
    nothing = estimate(world)
    assert "none of 30 records is left" in " ".join(nothing.stops)
    assert {stage.stage.split("/")[0] for stage in nothing.stages} == {"documents", "signatures"}


def test_tasks_and_answers_follow_from_labelled_rows_and_documents(tmp_path: Path) -> None:
    """Fails if labelled rows, documents to answer or seeds are not counted, or have another model."""
    world = tasks_world(tmp_path)
    found = {stage.stage: stage for stage in estimate(world).stages}
    tasks, answers, model = found["tasks/small-boat"], found["answers/small-boat"], found["models/small"]
    assert tasks.documents == 2 * (LABELLED - UNUSABLE)
    assert 8 * 2 * 63 * 5 < tasks.tokens < 8 * 2 * 63 * 24  # epochs, seeds, rows, and up to max_length
    assert answers.documents == sum(found[f"documents/{name}"].documents for name in ("pages", "notes"))
    assert answers.tokens <= 24 * answers.documents
    assert model.disk_bytes > 16 * 32 * 400 and model.memory_bytes > 10**9


def stage(name: str = "verdicts/small", **figures: int) -> Estimates:
    return Estimates(stages=(StageEstimate(stage=name, **figures),), workers=2)  # type: ignore[arg-type]


def test_the_corpora_of_roberta_fit_a_machine_of_24_gb() -> None:
    """Fails if a stage that holds the whole corpus takes more than 24 GB for the 78 million documents of 161 GB."""
    corpus = {"documents": 78e6, "text_bytes": 161e9, "tokens": 36e9, "different": 14e6}
    amounts = {**corpus, "parts": 5e3, "workers": 2, "stage": 1}
    kinds = ("documents", "signatures", "verdicts", "corpora", "counts", "totals", "vocabularies", "measures", "tokens")
    peaks = {kind: estimate_stage(kind, amounts).memory_bytes for kind in kinds}
    assert max(peaks, key=lambda kind: peaks[kind]) == "verdicts" and max(peaks.values()) < 24e9
    assert 24e9 < estimate_stage("verdicts", amounts).scratch_bytes < 120e9


def test_scratch_needs_room_beside_what_is_kept(few: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run is let through whose scratch has no room, or the wrong disk is looked at."""
    store = few.recipe()
    room.refuse_without_room(store, stage(disk_bytes=1_000, scratch_bytes=1_000), 2 * 10**9)
    with pytest.raises(InputError, match=r"about 1000000\.0 GB of scratch in .*--store"):
        room.refuse_without_room(store, stage(scratch_bytes=10**15), 2 * 10**9)
    monkeypatch.setattr(room, "read_free_bytes", lambda place: None)  # as of an object store
    with pytest.raises(InputError, match=r"about 1000000\.0 GB of scratch in .*TMPDIR"):
        room.refuse_without_room(store, stage(scratch_bytes=10**15), 2 * 10**9)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("documents", r"--workers 1 instead of 2"),
        ("models", r"training\.micro_batch"),
        ("tasks", r"micro_batch or max_length of its \[\[task\]\]"),
        ("answers", r"smaller model\.size, or name fewer sources"),
    ],
)
def test_each_kind_of_stage_has_the_remedy_that_lowers_its_memory(few: World, kind: str, remedy: str) -> None:
    """Fails if a stage that one process of the trainer builds is told to take fewer workers, which changes nothing."""
    with pytest.raises(InputError, match=remedy) as refused:
        room.refuse_without_room(few.recipe(), stage(f"{kind}/small", memory_bytes=3 * 10**9), 2 * 10**9)
    assert ("--workers" in str(refused.value)) == (kind == "documents")


def test_what_does_not_fit_is_refused_with_what_to_turn(few: World) -> None:
    """Fails if a run that fills the disk or the memory is let through, or one that fits is not."""
    store = few.recipe()
    room.refuse_without_room(store, stage(disk_bytes=1_000, memory_bytes=10**9), 2 * 10**9)
    with pytest.raises(InputError, match=r"would write about 1000000\.0 GB into .*--store"):
        room.refuse_without_room(store, stage(disk_bytes=10**15), 2 * 10**9)
    with pytest.raises(
        InputError, match=r"verdicts/small would take about 3\.0 GB .* has 2\.0 GB .* --workers 1 instead of 2"
    ):
        room.refuse_without_room(store, stage(memory_bytes=3 * 10**9), 2 * 10**9)
    recipe, lock = few.resolved()
    [file, *_] = lock.generations[0]["pages"]
    room.refuse_without_least_room(recipe, [file], 1)
    with pytest.raises(InputError, match="would come to at least"):
        room.refuse_without_least_room(recipe, [replace(file, size_bytes=10**17)], 1)
    with pytest.raises(InputError, match=r"Run with --workers \d+\.$"):
        room.refuse_without_least_room(recipe, [file], 100_000)
