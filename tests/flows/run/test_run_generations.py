"""Generations: a corpus that grows, revises and forgets; no old file is rewritten, no stale text stays."""

import hashlib
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from small_recipe import Run, World, fill, first_pages, live_texts, nearly, new_world, note, page, prose, run_lock
from tiers import LONG

from corpora.build import Corpus
from corpora.schema import DOCUMENTS, Document, compute_keyed_id, iter_documents
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table, read_table
from corpora.text.shingles import hash_text_shingles
from corpora.tombstones import Tombstones, hash_text, read_tombstones, write_tombstones
from corpora.views import read_view
from flows.recipes.lock import write_lock
from flows.run import pipeline
from shards.reading.files.shard_set import ShardSet


def page_id(number: int) -> bytes:
    return compute_keyed_id("pages", str(number))


def verdicts(run: Run) -> dict[tuple[bytes, int], dict[str, Any]]:
    """(id, revision) -> the newest verdict; for worlds in which a pair comes once."""
    rows = [
        row for batch in read_table(run.place, run.of("verdicts")[-1].manifest, "verdicts") for row in batch.to_pylist()
    ]
    return {(row["id"], row["revision"]): row for row in rows}


def live_verdicts(run: Run) -> set[tuple[bytes, str, bytes | None, float | None]]:
    """(id, text, survivor, similarity) of the live rows and of those that a survivor keeps out."""
    texts = live_texts(run)
    found = set()
    for (id, _), row in verdicts(run).items():
        if row["reason"] is None or row["survivor"] is not None:
            found.add((id, texts.get(id, "") if row["reason"] is None else "", row["survivor"], row["similarity"]))
    return found


def deleted(run: Run) -> set[tuple[bytes, int, int, str]]:
    rows = [row for batch in read_table(run.place, run.outcome.corpus, "deleted") for row in batch.to_pylist()]
    return {(row["id"], row["revision"], row["generation"], row["reason"]) for row in rows}


def example_documents(run: Run) -> Iterator[tuple[str, bool, bytes, int]]:
    """(split, live, document, revision) of every anchor and neighbour."""
    for split in ("train", "held-out"):
        shard_set = ShardSet(run.place, run.outcome.shards, split)
        for index in range(len(shard_set)):
            example, live = shard_set[index], bool(shard_set.is_live[index])
            for document, revision in zip(example.documents, example.revisions, strict=True):
                yield split, live, document, revision


def store_files(world: World) -> dict[str, tuple[int, str]]:
    """Every file of the store: its modification time and digest."""
    root = Path(world.recipe().store)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in files
    }


class Grown(NamedTuple):
    """A world after its second generation. `survivor` and `copy` are the two pages of equal text in the first."""

    world: World
    first: Run
    second: Run
    before: dict[str, tuple[int, str]]
    survivor: int
    copy: int


def grow(world: World) -> Grown:
    """A second dump: new pages, revised ones, unchanged ones, and a copy of an old one.

    In the first generation pages 5 and 101 have one text, so one of them is out as a copy of the other; the
    second generation revises the survivor.
    """
    first = world.run()
    before = store_files(world)
    survivor, copy = (5, 101) if verdicts(first)[page_id(5), 1]["reason"] is None else (101, 5)
    assert verdicts(first)[page_id(copy), 1]["survivor"] == page_id(survivor)
    new = [page(str(n), prose(n), author=f"author {n % 5}") for n in range(200, 212)]
    revised = [page("3", prose(903), revision=2, author="author 0"), page(str(survivor), prose(905), revision=2)]
    same = [*first_pages(0)[6:8], page("8", prose(8), revision=9)]
    copied = [page("212", nearly(prose(100, 40)))]
    world.put("pages", "pages-9", [*new, *revised, *same, *copied])
    return Grown(world=world, first=first, second=world.run(), before=before, survivor=survivor, copy=copy)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """For tests that only read."""
    return grow(fill(new_world(tmp_path_factory.mktemp("grown") / "world")))


@pytest.fixture
def growing(grown: Grown, tmp_path: Path) -> Grown:
    """For tests that go on from there."""
    shutil.copytree(grown.world.folder, tmp_path / "growing")
    world = World(folder=tmp_path / "growing")
    first, second = (replace(run, place=world.place) for run in (grown.first, grown.second))
    return grown._replace(world=world, first=first, second=second)


def test_a_new_generation_rewrites_no_file(grown: Grown) -> None:
    """Fails if an old file is touched, or an old part is written again instead of pointed to."""
    after = store_files(grown.world)
    assert {path: after[path] for path in grown.before} == grown.before
    assert len(after) > len(grown.before)
    first, second = grown.first, grown.second
    assert second.outcome.vocabulary == first.outcome.vocabulary
    assert second.built("documents") == ["pages/00000"]
    assert second.built("signatures") == ["pages/00000"]
    assert second.built("counts") == second.built("vocabularies") == []
    names = ["small/g002-pages-00000", "small/g002-changes"]
    assert second.built("corpora") == second.built("tokens") == names
    assert [name for name in second.built("shards") if "g001" in name] == []
    assert "small/train-g002-00000" in second.built("shards")
    for old, new in ((first.outcome.corpus, second.outcome.corpus), (first.outcome.shards, second.outcome.shards)):
        assert all(part in new.parts for part in old.parts) and len(new.parts) > len(old.parts)


def test_a_revised_page_takes_the_place_of_the_old(grown: Grown) -> None:
    """Fails if stale text stays live, or the new text does not enter."""
    live = live_texts(grown.second)
    assert live_texts(grown.first)[page_id(3)] == prose(3)
    assert live[page_id(3)] == prose(903)
    assert live[page_id(grown.survivor)] == prose(905)
    assert verdicts(grown.second)[page_id(3), 1]["reason"] == "superseded"
    assert verdicts(grown.second)[page_id(3), 2]["since"] == 1
    gone = {(page_id(3), 1, 1, "superseded"), (page_id(grown.survivor), 1, 1, "superseded")}
    assert deleted(grown.second) == gone
    rows = list(example_documents(grown.second))
    assert {live for _, live, *row in rows if row == [page_id(3), 1]} == {False}
    assert {live for _, live, *row in rows if row == [page_id(3), 2]} == {True}


def test_an_unchanged_page_stays_where_it_is(grown: Grown) -> None:
    """Fails if a second dump that repeats a page moves it or doubles it."""
    manifest = grown.second.of("verdicts")[-1].manifest
    rows = [row for batch in read_table(grown.world.place, manifest, "verdicts") for row in batch.to_pylist()]
    for number in (6, 7, 8):
        assert [row["reason"] for row in rows if row["id"] == page_id(number)] == [None, "repeated"]
        [document] = [d for d in grown.second.corpus.iter_documents() if d.id == page_id(number)]
        assert (document.revision, document.locator.file) == (1, "pages-0.jsonl")


def test_a_copy_is_revived_when_its_survivor_is_revised(grown: Grown) -> None:
    """Fails if a removed document stays out although nothing has its text any more."""
    assert page_id(grown.copy) not in live_texts(grown.first)
    assert live_texts(grown.second)[page_id(grown.copy)] == prose(5)
    [batch] = [
        b
        for part in grown.second.outcome.corpus.parts
        if part.name == "g002-changes"
        for b in read_part_table(grown.world.place, "corpora/small", part, "documents")
    ]
    assert [(row["id"], row["since"], row["generation"]) for row in batch.to_pylist()] == [(page_id(grown.copy), 1, 2)]
    assert {live for _, live, document, _ in example_documents(grown.second) if document == page_id(grown.copy)} == {
        True
    }
    assert grown.second.outcome.corpus.ledger.figures == {"revived documents": 1}


def manifests_of(run: Run) -> list[Manifest]:
    """Return the manifests of a run's results, in the order in which they depend on each other."""
    made = run.outcome
    return [*made.documents, made.corpus, *made.vocabularies.values(), *made.shard_sets.values()]


def test_generations_one_by_one_equal_those_at_once(grown: Grown, tmp_path: Path) -> None:
    """Fails if the path by which a store grew decides what it holds."""
    recipe, lock = grown.world.resolved()
    at_once = run_lock(Place(str(tmp_path / "at once")), recipe, lock)
    assert all(grown.world.manifests()[f"{folder}/manifest.json"] for folder in at_once.bytes())
    for mine, theirs in zip(manifests_of(at_once), manifests_of(grown.second), strict=True):
        assert (mine.folder, mine.content) == (theirs.folder, theirs.content)
    assert live_verdicts(at_once) == live_verdicts(grown.second)
    assert live_texts(at_once) == live_texts(grown.second)


def test_a_run_after_the_raw_files_are_gone(growing: Grown) -> None:
    """Fails if an old generation's raw files are needed although their documents are in the store."""
    (growing.world.folder / "raw" / "pages" / "pages-0.jsonl").unlink()
    again = growing.world.run()
    assert all(stage.reused for stage in again.stages)
    with pytest.raises(ValueError, match=r"1 raw file of an older generation is gone \(first: pages-0.jsonl\)"):
        growing.world.run(clean__profile="uncased")


def test_a_tombstone_keeps_a_document_out(growing: Grown) -> None:
    """Fails if a forgotten document, or its text under another id, is in a corpus or an example."""
    place, victim = growing.world.place, page_id(7)
    tombstones = Tombstones().with_documents([(victim, hash_text(prose(7).encode()))])
    write_tombstones(place, "small", tombstones)
    assert read_tombstones(place, "small") == tombstones
    growing.world.put("notes", "notes-9", [note(900, prose(7)), note(901, prose(990))])
    run = growing.world.run()
    forgotten = {id for (id, _), row in verdicts(run).items() if row["reason"] == "forgotten"}
    assert victim in forgotten and len(forgotten) == 2
    live = live_texts(run)
    assert not forgotten & set(live)
    assert prose(7) not in live.values()
    assert prose(990) in live.values()
    assert not {document for _, live, document, _ in example_documents(run) if live} & forgotten
    # What is left of the text is in no file that the new artifacts name.
    held = [document.text for part in run.outcome.corpus.parts for document in part_documents(run.corpus, part.name)]
    assert prose(7) not in held


def test_a_forget_of_its_own_generation_rewrites_no_file(growing: Grown) -> None:
    """Fails if a forget changes an older verdict, refits the vocabulary or touches a shard that is there."""
    world, victim = growing.world, page_id(7)
    before, shards = store_files(world), growing.second.outcome.shards
    tombstones = Tombstones().with_documents([(victim, hash_text(prose(7).encode()))], generation=3)
    write_tombstones(world.place, "small", tombstones)
    lock_path = world.recipe().lock_path
    assert lock_path is not None
    _, lock = world.resolved()
    write_lock(lock_path, replace(lock, generations=(*lock.generations, {})))
    run = world.run()
    assert len(run.lock.generations) == 3
    after = store_files(world)
    assert {path: after[path] for path in before if "tombstones" not in path} == before
    assert run.outcome.vocabulary.fingerprint == growing.second.outcome.vocabulary.fingerprint
    assert {part.name for part in shards.parts} <= {part.name for part in run.outcome.shards.parts}
    assert (victim, 1, 1, "forgotten") in deleted(run)
    assert victim not in live_texts(run)
    examples = list(example_documents(run))
    assert victim in {document for _, live, document, _ in examples if not live}
    assert victim not in {document for _, live, document, _ in examples if live}


def part_documents(corpus: Corpus, name: str) -> Iterator[Document]:
    """All rows that one part holds, live or not."""
    for view in corpus.views:
        if view.part.name == name:
            yield from iter_documents(read_view(corpus.place, view, DOCUMENTS.names))


def test_a_tombstone_revives_what_its_document_kept_out(growing: Grown) -> None:
    """Fails if a near copy of a forgotten document stays out for a survivor that is not there."""
    copies = {id for (id, _), row in verdicts(growing.second).items() if row["survivor"] == page_id(100)}
    assert len(copies) == 2
    write_tombstones(growing.world.place, "small", Tombstones().with_documents([(page_id(100), hash_text(b"other"))]))
    live = live_texts(growing.world.run())
    assert page_id(100) not in live
    assert len(copies & set(live)) == 1


def test_a_group_is_never_divided(growing: Grown) -> None:
    """Fails if two documents of one author are on both sides of the split, in whatever generation."""
    world = growing.world
    world.put("pages", "pages-8", [page(str(n), prose(n), author=f"author {n % 20}") for n in range(400, 460)])
    run = world.run()
    columns = ["id", "group", "held_out", "generation"]
    rows = [row for batch in run.corpus.iter_batches() for row in batch.select(columns).to_pylist()]
    sides = {(row["group"], row["held_out"]) for row in rows if row["group"] is not None}
    assert len({group for group, _ in sides}) == len(sides) and {side for _, side in sides} == {True, False}
    assert len({row["generation"] for row in rows if row["group"] == "author 0"}) > 1
    held_out = {row["id"]: row["held_out"] for row in rows}
    for split, live, document, _ in example_documents(run):
        if live:
            assert held_out[document] == (split == "held-out")


class Row(NamedTuple):
    """One record of the random worlds below."""

    generation: int
    id: int
    revision: int
    seed: int


def expected_live(rows: list[Row], longest: int) -> dict[bytes, str]:
    """The rule by itself: the newest text of each page, in the order (since, length, id), without what is similar to a
    kept one before it. Quality is equal throughout."""
    since: dict[int, int] = {}
    newest: dict[int, Row] = {}
    for row in rows:
        since[row.id] = min(row.generation, since.get(row.id, row.generation))
        newest[row.id] = max(newest.get(row.id, row), row, key=lambda r: (r.revision, r.generation))
    kept: dict[bytes, str] = {}
    sets: list[set[int]] = []
    shingles_of = {row: hash_text_shingles(random_text(row.seed)) for row in newest.values()}
    for row in sorted(newest.values(), key=lambda r: (since[r.id], -longest * len(shingles_of[r]), page_id(r.id))):
        text, shingles = random_text(row.seed), shingles_of[row]
        if not any(len(shingles & other) >= 0.8 * len(shingles | other) for other in sets):
            kept[page_id(row.id)] = text
            sets.append(shingles)
    return kept


def random_text(seed: int) -> str:
    """One of few long texts, in one of two tellings that are near-duplicates."""
    text = prose(seed // 2, 12)
    return nearly(text) if seed % 2 else text


@pytest.mark.parametrize("seed", range(6 if LONG else 2))
def test_live_rows_are_those_of_the_rule(tmp_path: Path, seed: int) -> None:
    """Fails if any sequence of additions and revisions leaves other rows live than the rule says.

    Four generations over few pages and fewer texts: copies, revisions to and fro, revivals and removals abound. In
    every second of these worlds the longest text of a generation is preferred.
    """
    draw = random.Random(seed)
    world = new_world(tmp_path / "world")
    world.put("notes", "notes-0", [note(n, prose(5000 + n)) for n in range(3)])
    rows: list[Row] = []
    changes = 0
    for generation in range(1, 5):
        ids = draw.sample(range(12), 7)
        new = [
            Row(generation, id, draw.choice((generation, generation, generation - 1)), draw.randrange(16)) for id in ids
        ]
        world.put(
            "pages", f"pages-{generation}", [page(str(r.id), random_text(r.seed), revision=r.revision) for r in new]
        )
        rows += new
        run = world.run(**{"duplicates__prefer": "'longest'"} if seed % 2 else {})
        live = {id: text for id, text in live_texts(run).items() if id in {page_id(n) for n in range(12)}}
        assert live == expected_live(rows, longest=seed % 2)
        changes += run.outcome.corpus.count_rows("deleted")
        changes += run.outcome.corpus.ledger.figures.get("revived documents", 0)
        readable = {(document, revision) for _, live, document, revision in example_documents(run) if live}
        held = {(document.id, document.revision) for document in run.corpus.iter_documents()}
        assert readable <= held
        assert len(readable) > len(held) // 2
    assert changes > 3


def test_earlier_generations_are_settled(growing: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a day costs more looks than the day before, or leaves other bytes than a run that looks at all."""
    world, days = growing.world, [growing.second]
    whole = World(folder=world.folder.with_name("whole"))
    shutil.copytree(world.folder, whole.folder)
    for day in (600, 700):
        for each in (world, whole):
            each.put("pages", f"pages-{day}", [page(str(day + n), prose(day + n)) for n in range(4)])
        days.append(world.run())
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "find_settled", lambda *asked: pipeline.NOTHING_SETTLED)
            assert whole.run().outcome.settled == ()
    second, third, fourth = ([stage.stage.stage_folder for stage in day.stages] for day in days)
    assert second == third == fourth
    assert fourth.count("documents/pages") == fourth.count("verdicts/small") == 1
    assert days[2].stages[0].reason.endswith(": 3 generations are settled")
    assert {growing.first.of("documents")[0].manifest.folder} < {*days[2].outcome.settled}
    assert len(days[2].outcome.documents) == len(growing.second.outcome.documents) + 2
    assert world.manifests() == whole.manifests()


@pytest.mark.parametrize("kind", ["documents", "corpora"])
def test_a_damaged_earlier_generation_is_built_again(growing: Grown, kind: str) -> None:
    """Fails if a generation is taken as settled although a file of it is lost that a new one needs."""
    world, before = growing.world, store_files(growing.world)
    manifest = growing.first.of(kind)[0].manifest
    files = [file.path for part in manifest.parts for file in part.files if file.table == "documents"]
    lost = [f"{manifest.stage_folder}/{path}" for path in files]
    for path in lost:
        world.place.delete(path)
    world.put("pages", "pages-93", [page("600", nearly(prose(100, 40)))])
    world.run()
    after = store_files(world)
    assert [after[path][1] for path in lost] == [before[path][1] for path in lost]


def test_a_page_that_is_dropped_in_its_new_revision_goes(growing: Grown) -> None:
    """Fails if the text that a page had before is kept after the page itself became unusable."""
    growing.world.put("pages", "pages-92", [page("9", "Redirected.", revision=2)])
    third = growing.world.run()
    assert page_id(9) not in live_texts(third)
    assert (page_id(9), 1, 1, "superseded") in deleted(third)


def test_a_deleted_lock_starts_again_with_one_generation(world: World) -> None:
    """Fails if live text depends on how it was spread over generations (here nothing copies across them)."""
    world.run()
    new = [page(str(n), prose(n)) for n in range(200, 206)]
    world.put("pages", "pages-9", [page("3", prose(903), revision=2), *new])
    second = world.run()
    world.recipe_path.with_suffix(".lock").unlink()
    fresh = world.run()
    assert (len(second.lock.generations), len(fresh.lock.generations)) == (2, 1)
    assert live_texts(fresh) == live_texts(second) and fresh.outcome.corpus.count_rows("deleted") == 0
