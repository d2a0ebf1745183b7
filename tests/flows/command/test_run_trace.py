"""Every example can be traced: back to its documents and their raw records, and from a document to its examples."""

import gzip
import json
import random
from pathlib import Path

import pytest
from recorded_run import of_recipe
from small_recipe import Run, World, new_world, note, page, prose

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.tables import read_table
from flows.command.trace import RawRecord, build_document_json, read_raw_record, trace_document, trace_number
from flows.run.addresses import Artifact
from flows.run.record.run_record import write_run
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary


def record_run(world: World, run: Run, number: int) -> Artifact:
    """Put the run on record, as a run under the orchestrator does; its shards."""
    write_run(run.place, of_recipe(f"2026010{number}T000000000000-small", world.recipe()), run.lock)
    return Artifact(place=run.place, manifest=run.outcome.shards)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Run, Artifact]:
    """Two generations; lines, whole texts and compressed files; the second generation revives a page."""
    world = new_world(tmp_path_factory.mktemp("trace") / "world")
    world.put("pages", "a", [page(str(n), prose(n)) for n in range(12)])
    world.put("notes", "n", [note(n, prose(100 + n)) for n in range(4)])
    packed = world.put("notes", "packed", [note(n, prose(200 + n)) for n in range(4)])
    packed.with_suffix(".jsonl.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (packed.parent / "plain.txt").write_text(prose(300))
    first = world.run()
    record_run(world, first, 1)
    world.put("pages", "b", [page("3", prose(503), revision=2), *(page(str(n), prose(n)) for n in range(20, 26))])
    run = world.run()
    return world, run, record_run(world, run, 2)


def words(run: Run, shards: Manifest, ids: list[int]) -> str:
    """Token ids as words."""
    tokens = read_vocabulary(run.place, run.outcome.vocabulary).tokens
    return " ".join(tokens[id] for id in ids).replace(" ##", "")


def test_examples_lead_back_to_their_raw_bytes(traced: tuple[World, Run, Artifact]) -> None:
    """Fails if an example's document is another's, or its locator leads to other bytes."""
    _, run, shards = traced
    draw = random.Random(5)
    found_files, roles = set(), set()
    for split in ("train", "held-out"):
        shard_set = ShardSet(run.place, run.outcome.shards, split)
        for index in draw.sample(range(len(shard_set)), min(40, len(shard_set))):
            example = shard_set[index]
            _, traces = trace_number(shards, index, split)
            assert [t.trace.document.id for t in traces] == list(example.documents)
            for item in traces:
                document, raw = item.trace.document, item.raw.data
                assert raw is not None
                if document.locator.file.endswith(".txt"):
                    assert raw.decode() == document.text
                else:
                    record = json.loads(raw)
                    assert (record["title"], record["body"]) == (document.title, document.text)
                found_files.add(document.locator.file)
                roles.add(item.trace.role)
            first, second = (example.ids[1 : example.boundary - 1], example.ids[example.boundary : -1])
            assert _stands_in(words(run, shards.manifest, first.tolist()), traces[0].trace.document.text)
            owner = traces[-1] if example.label == 1 else traces[0]
            assert _stands_in(words(run, shards.manifest, second.tolist()), owner.trace.document.text)
    assert found_files == {"a.jsonl", "b.jsonl", "n.jsonl", "packed.jsonl.gz", "plain.txt"}
    assert roles == {"anchor", "neighbour"}


def _stands_in(piece: str, text: str) -> bool:
    """True if the pieces of words are in the text one after another, apart from spaces and case."""
    squeeze = "".join(piece.split()).replace("##", "")
    return squeeze in "".join(text.lower().split())


def test_a_document_leads_to_its_examples_and_back(traced: tuple[World, Run, Artifact]) -> None:
    """Fails if one of the examples that hold a document is not found, or one is found that does not."""
    _, run, shards = traced
    held: dict[str, dict[str, set[int]]] = {}
    for split in ("train", "held-out"):
        shard_set = ShardSet(run.place, run.outcome.shards, split)
        for index in range(len(shard_set)):
            example = shard_set[index]
            for id in set(example.documents):
                held.setdefault(id.hex(), {"train": set(), "held-out": set()})[split].add(index)
    # A document that is alone in its generation and split finds no partner and makes no example.
    sides: dict[tuple[int, bool], set[str]] = {}
    for batch in read_table(run.place, run.outcome.corpus, "documents"):
        for row in batch.to_pylist():
            sides.setdefault((row["generation"], row["held_out"]), set()).add(row["id"].hex())
    assert set(held) == {id for side in sides.values() if len(side) > 1 for id in side}
    assert len(held) > 20
    for id_hex, expected in held.items():
        document, examples = trace_document(shards, id_hex)
        assert document.id.hex() == id_hex
        assert {split: set(numbers) for split, numbers in examples.items()} == expected
    [new] = [document for document in run.corpus.iter_documents() if document.title == "Page 3"]
    document, examples = trace_document(shards, new.id.hex())
    assert (document.text, document.revision) == (prose(503), 2), "it is shown as it was"
    traces = [t.trace for split, found in examples.items() for n in found for t in trace_number(shards, n, split)[1]]
    own = {trace.generation: trace.document.text for trace in traces if trace.document.id == new.id}
    assert own == {1: prose(3), 2: prose(503)}


def test_a_raw_file_that_is_gone_is_said_and_not_an_error(tmp_path: Path) -> None:
    """Fails if a trace breaks, or shows other bytes, once the raw file lies elsewhere or nowhere."""
    world = new_world(tmp_path)
    path = world.put("pages", "a", [page(str(n), prose(n)) for n in range(8)])
    world.put("notes", "n", [note(1, prose(50))])
    run = world.run()
    shards = record_run(world, run, 1)
    numbers = range(len(ShardSet(run.place, run.outcome.shards)))
    pages = [n for n in numbers if trace_number(shards, n)[1][0].trace.document.source == "pages"]
    path.rename(path.with_name("moved.jsonl"))
    assert trace_number(shards, pages[0])[1][0].raw == RawRecord(absence="the raw file is not on this machine")
    again = world.run()
    record_run(world, again, 2)
    raw = trace_number(shards, pages[0])[1][0].raw.data
    assert raw is not None and json.loads(raw)["title"].startswith("Page ")


def test_a_raw_file_that_was_changed_in_place_is_not_shown_as_the_record(tmp_path: Path) -> None:
    """Fails if the new bytes of a file are told as the record of the text that was read from it before."""
    world = new_world(tmp_path)
    path = world.put("notes", "n", [note(n, prose(n)) for n in range(4)])
    world.put("pages", "a", [page(str(n), prose(20 + n)) for n in range(4)])
    run = world.run()
    shards = record_run(world, run, 1)
    [document] = [each for each in run.corpus.iter_documents() if each.text == prose(0)]
    read = read_raw_record(run.place, document)
    assert read.data is not None and json.loads(read.data)["body"] == prose(0)
    copy = path.with_name("copy.txt")
    copy.write_bytes(path.read_bytes())
    path.write_text(path.read_text().replace(prose(0)[:20], prose(0)[:20].upper()))
    assert path.stat().st_size == copy.stat().st_size
    changed = read_raw_record(run.place, document)
    assert changed.data is None and changed.absence.endswith(
        f"has changed since it was read, so its record is not shown: {path}"
    )
    facts = build_document_json(shards, document.id.hex())["document"]
    assert (facts["raw_bytes"], facts["raw_absence"]) == (None, changed.absence)
    path.write_bytes(copy.read_bytes())
    assert read_raw_record(run.place, document) == read


@pytest.mark.parametrize("number", [-1, 10**6])
def test_a_number_that_no_example_has(traced: tuple[World, Run, Artifact], number: int) -> None:
    """Fails if the range is not told."""
    with pytest.raises(InputError, match=rf"There is no example {number}: shards/small/\w+ holds 0 to \d+"):
        trace_number(traced[2], number)


@pytest.mark.parametrize(("id", "said"), [("xyz", "is not a document id"), ("00" * 16, "keeps no document 0000")])
def test_an_id_that_no_document_has(traced: tuple[World, Run, Artifact], id: str, said: str) -> None:
    """Fails if a slip ends in a traceback."""
    with pytest.raises(InputError, match=said):
        trace_document(traced[2], id)
