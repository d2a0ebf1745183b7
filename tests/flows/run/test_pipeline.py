"""The run as one page: the order of its stages, and what it makes of thin, empty and one-sided inputs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from small_recipe import KINDS, World, live_texts, new_world, note, page, prose, run_lock

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve_raw_files
from flows.run.pipeline import run_recipe
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary


def test_stages_come_in_their_order(world: World) -> None:
    """Fails if a stage runs before what it needs, twice, or apart from those that may run at the same time."""
    recipe, lock = world.resolved()
    calls: list[list[str]] = []

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        calls.append([stage.stage_folder for stage in stages])
        return [build_stage(world.place, stage) for stage in stages]

    outcome = run_recipe(world.place, recipe, lock, perform)
    kinds = [dict.fromkeys(name.split("/")[0] for name in call) for call in calls]
    assert [kind for some in kinds for kind in some] == list(KINDS)
    assert {len(some): [*some] for some in kinds}[2] == ["measures", "tokens"], "these do not wait for each other"
    assert calls[0] == ["documents/pages", "documents/notes"]
    assert [m.kind for m in (outcome.corpus, outcome.vocabulary, outcome.shards)] == [
        "corpora",
        "vocabularies",
        "shards",
    ]


def test_priority_says_whose_copy_survives(world: World) -> None:
    """Fails if the order of the sources in the recipe, or another's quality, goes before their priority."""
    world.run()
    titles = {document.title for document in world.run().corpus.iter_documents()}
    assert "Page 100" in titles and "Note 50" not in titles  # two near copies; the pages come first
    text = world.text.replace('name = "notes"', 'name = "notes"\npriority = 0')
    other = World(folder=world.folder, text=text)
    titles = {document.title for document in other.run().corpus.iter_documents()}
    assert "Note 50" in titles and "Page 100" not in titles


def test_weights_reach_the_vocabulary(world: World) -> None:
    """Fails if a source's weight changes nothing, or changes more than the vocabulary and what follows."""
    first = world.run()
    text = world.text.replace('name = "notes"', 'name = "notes"\nweight = 50')
    second = World(folder=world.folder, text=text).run()
    built = [stage.stage.kind for stage in second.stages if not stage.reused]
    assert built == ["vocabularies", "measures", "tokens", "shards"]
    words = [read_vocabulary(run.place, run.outcome.vocabulary).tokens for run in (first, second)]
    assert words[0] != words[1]


def test_seeds_reach_their_stages(world: World) -> None:
    """Fails if the recipe's seed decides nothing, or decides what it should not."""
    first, second = world.run(), world.run(seed="43")
    built = [stage.stage.kind for stage in second.stages if not stage.reused]
    assert built[0] == "verdicts" and "shards" in built
    assert live_texts(first) == live_texts(second)
    order = [
        [shard_set[index].document for index in range(len(shard_set))]
        for shard_set in (ShardSet(run.place, run.outcome.shards) for run in (first, second))
    ]
    assert order[0] != order[1]


@pytest.fixture
def small(tmp_path: Path) -> World:
    """Ten pages and one note."""
    world = new_world(tmp_path / "thin")
    world.put("pages", "a", [page(str(n), prose(n)) for n in range(10)])
    world.put("notes", "n", [note(1, prose(50))])
    return world


@pytest.mark.parametrize("masks", ["dynamic", "static"])
def test_a_generation_of_one_document_makes_no_example(small: World, masks: str) -> None:
    """Fails if a shard without examples cannot be written, read or traced: its tokens are left over."""
    small.run(shards__masking__kind=masks)
    small.put("pages", "b", [page("20", prose(20))])
    run = small.run(shards__masking__kind=masks)
    alone = [part for part in run.outcome.shards.parts if part.labels["generation"] == "2"]
    assert [part.count_rows("examples") for part in alone] == [0]
    account = alone[0].ledger.find_account("tokens of copy 0")
    assert account.total > 0 and account.outcomes["placed"] == 0
    shard_set = ShardSet(run.place, run.outcome.shards)
    assert len(shard_set) == sum(
        part.count_rows("examples") for part in run.outcome.shards.parts if part.labels["split"] == "train"
    )
    assert np.all(shard_set.is_live)
    assert all(len(example.ids) for example in shard_set.iter_live_examples())


@pytest.mark.parametrize("empty", ["\n\n", '{"body": "short", "title": "x"}\n'])
def test_a_source_without_a_document(small: World, empty: str) -> None:
    """Fails if an empty file, or one of which nothing stays, breaks a later stage."""
    (small.folder / "raw" / "notes" / "n.jsonl").write_text(empty)
    run = small.run()
    assert run.outcome.documents[1].count_rows("documents") == 0
    assert len(live_texts(run)) == 10
    small.put("notes", "later", [note(n, prose(60 + n)) for n in range(3)])
    assert len(live_texts(small.run())) == 13


@pytest.mark.parametrize("empty", ["", '{"body": "short", "id": "77"}\n'])
def test_a_generation_without_a_document(small: World, empty: str) -> None:
    """Fails if a new file that brings nothing breaks a stage, or moves what is there."""
    first = small.run()
    (small.folder / "raw" / "pages" / "later.jsonl").write_text(empty)
    second = small.run()
    assert len(second.lock.generations) == 2
    assert live_texts(second) == live_texts(first)
    assert second.outcome.shards.tables == first.outcome.shards.tables


def test_deduplication_can_be_switched_off(world: World) -> None:
    """Fails if a copy is removed all the same, or a superseded revision comes back."""
    run = world.run(duplicates__enabled="false")
    removed = run.outcome.corpus.ledger.find_account("documents").outcomes
    assert {name for name, count in removed.items() if count} == {"kept", "removed: superseded"}


def test_a_vocabulary_can_be_trained_on_a_later_generation(small: World) -> None:
    """Fails if the lock's word is not followed, or revived rows break the counts."""
    first = small.run()
    small.put("pages", "b", [page(str(n), prose(n)) for n in range(20, 30)])
    recipe, lock = small.resolved()
    refit = Lock(generations=lock.generations, vocabulary_generation=2)
    second = run_lock(small.place, recipe, resolve_raw_files(recipe, refit, StatCache()).lock)
    counted = second.of("counts")[0].manifest.ledger.find_account("documents").outcomes["counted"]
    assert counted > first.of("counts")[0].manifest.ledger.find_account("documents").outcomes["counted"]
    assert second.outcome.vocabulary != first.outcome.vocabulary
