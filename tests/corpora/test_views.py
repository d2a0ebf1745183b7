"""A corpus is a view: its rows are those of its documents, wherever these are, and only what is asked for is read."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from corpus_builder import Builder, body, line

from corpora.build import Corpus, plan_corpus
from corpora.store import manifest as manifests
from corpora.store import tables
from corpora.store.damage import Damaged, find_digest
from corpora.store.manifest import Manifest, Part, PartRecord, RecordAddress, StoredFile, read_part_record
from corpora.store.stage import build_stage
from corpora.store.tables import read_part_rows, read_table
from corpora.views import CORPUS, ROW_KEY, VERDICT_COLUMNS, read_view


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Four generations: copies in several parts, a survivor that is revised so that its copy is revived, new pages."""
    builder = Builder(tmp_path_factory.mktemp("views") / "world")
    return grow(builder)


def grow(builder: Builder) -> Builder:
    builder.folder.mkdir(exist_ok=True)
    builder.add(*(line(n, body(n % 6)) for n in range(9)), files=3)
    for number in range(3):
        builder.add(line(number, body(20 + number), rev=2), line(30 + number, body(30 + number)))
    return builder


def newest(builder: Builder) -> Corpus:
    return Corpus(builder.place, build_stage(builder.place, plan_corpus(builder.place, "own", builder.generations)))


def by_definition(builder: Builder) -> list[dict[str, Any]]:
    """The rows of all parts, from the documents and the verdicts of each generation, one by one."""
    rows, held = [], set[int]()
    for generation in builder.generations:
        verdicts = builder.rows(generation.verdicts, "verdicts")
        texts = [
            (item.generation, row) for item in generation.inputs for row in builder.rows(item.documents, "documents")
        ]
        own, revived = list[dict[str, Any]](), list[dict[str, Any]]()
        for number, ((came, document), verdict) in enumerate(zip(texts, verdicts, strict=True)):
            if verdict["reason"] is None and number not in held:
                decided = {name: verdict[name] for name in ("id", "revision", "since", "held_out")}
                found = {**document, **decided, "generation": generation.number}
                (own if came == generation.number else revived).append(found)
        held = {number for number, verdict in enumerate(verdicts) if verdict["reason"] is None}
        rows += [*own, *revived]
    return rows


def read_rows(corpus: Corpus, columns: Sequence[str] = CORPUS.names) -> list[dict[str, Any]]:
    return [row for view in corpus.views for b in read_view(corpus.place, view, columns) for row in b.to_pylist()]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the record batches that are decoded, by the kind of artifact."""
    counts, read = Counter[str](), tables._MappedFile.read_batch

    def reading(image: Any, number: int) -> Any:
        counts[image._table.path.split("/")[0]] += 1
        return read(image, number)

    monkeypatch.setattr(tables._MappedFile, "read_batch", reading)
    yield counts


def test_rows_are_those_of_the_documents_and_the_verdicts(grown: Builder) -> None:
    """Fails if a row has another document's columns, or comes in another place, in any generation's part."""
    corpus, expected = newest(grown), by_definition(grown)
    assert read_rows(corpus) == expected
    assert corpus.manifest.ledger.figures["revived documents"] and len(expected) == corpus.manifest.count_rows(
        "documents"
    )
    columns = ("text", "generation", "title")
    assert read_rows(corpus, columns) == [{name: row[name] for name in columns} for row in expected]


def test_one_row_is_read_by_its_number(grown: Builder) -> None:
    """Fails if rows that are asked for by their numbers are others than those of a reading of all."""
    for view in newest(grown).views:
        whole = [row for b in read_view(grown.place, view, ("id", "text")) for row in b.to_pylist()]
        for number, row in enumerate(whole):
            [batch] = read_view(grown.place, view, ("id", "text"), range(number, number + 1))
            assert batch.to_pylist() == [row]


def test_live_rows_are_all_but_the_deleted_ones(grown: Builder) -> None:
    """Fails if a deleted row is read, a live one is not, or the columns are others than were asked for."""
    corpus = newest(grown)
    deleted = {tuple(row[name] for name in ROW_KEY) for row in grown.rows(corpus.manifest, "deleted")}
    live = [row for row in by_definition(grown) if tuple(row[name] for name in ROW_KEY) not in deleted]
    assert deleted and [row for batch in corpus.iter_batches() for row in batch.to_pylist()] == live
    assert {tuple(batch.schema.names) for batch in corpus.iter_batches(("text",))} == {("text",)}


def test_documents_are_read_for_their_own_columns_alone(grown: Builder, decoded: Counter[str]) -> None:
    """Fails if what the verdicts decided needs the documents, or parts without live rows are opened."""
    corpus = newest(grown)
    decoded.clear()
    assert read_rows(corpus, VERDICT_COLUMNS) and set(decoded) == {"corpora"}
    read_rows(corpus, ("text",))
    assert 0 < decoded["documents"] <= sum(1 for view in corpus.views if view.num_rows) + 3


def test_no_text_is_in_a_corpus(grown: Builder) -> None:
    """Fails if a part of a corpus holds the text of a document that stays."""
    assert not {"text", "title", "locator"} & {
        *(name for batch in read_table(grown.place, newest(grown).manifest, "documents") for name in batch.schema.names)
    }


def test_contents_follow_the_texts_and_not_the_folder(tmp_path: Path) -> None:
    """Fails if equal documents in another artifact change what later stages are keyed by, or other texts do not."""
    contents = []
    for name, more in (("one", ""), ("two", ""), ("three", " More.")):
        builder = Builder(tmp_path / name)
        builder.folder.mkdir()
        corpus = builder.add(line(1, body(1)), line(2, body(2) + more))
        contents.append([part.content for part in corpus.manifest.parts])
        if name == "two":  # the same documents under another fingerprint, as of a recipe with another setting
            item = builder.inputs[0]
            moved = move_documents(builder, item.documents)
            builder.inputs[0] = replace(item, documents=moved)
            builder.generations[0] = replace(builder.generations[0], inputs=tuple(builder.inputs))
            again = newest(builder)
            assert again.manifest.fingerprint != corpus.manifest.fingerprint
            assert [part.fingerprint for part in again.manifest.parts] == [p.fingerprint for p in corpus.manifest.parts]
            assert {view.documents for view in again.views} == {(moved.folder,)}
            shutil.rmtree(builder.place.to_full_path(item.documents.folder))
            assert read_rows(again, ("text",)) == [{"text": body(1)}, {"text": body(2)}]
    assert contents[0] == contents[1] != contents[2]


def move_documents(builder: Builder, documents: Manifest, fingerprint: str = "moved") -> Manifest:
    """Copy an artifact into a folder with another fingerprint, its files and records as well."""
    place = builder.place
    shutil.copytree(place.to_full_path(documents.folder), place.to_full_path(f"{documents.stage_folder}/{fingerprint}"))

    def moved(path: str) -> str:
        return path.replace(documents.fingerprint, fingerprint)

    parts = []
    for part in documents.parts:
        assert part.record is not None
        record = read_part_record(place, documents.stage_folder, part.record.path)
        files = tuple(replace(file, path=moved(file.path)) for file in part.files)
        checks = {moved(path): checks for path, checks in record.checks.items()}
        data = PartRecord(part=replace(record.part, files=files), checks=checks).to_bytes()
        address = RecordAddress(path=moved(part.record.path), digest=find_digest(data))
        place.write(f"{documents.stage_folder}/{address.path}", data)
        parts.append(replace(part, files=files, record=address))
    other = replace(documents, fingerprint=fingerprint, parts=tuple(parts))
    data = other.to_bytes()
    place.write(f"{other.folder}/manifest.json", data)
    return Manifest.from_bytes(data, other.folder)


def test_documents_that_were_moved_by_a_repair_are_found(tmp_path: Path) -> None:
    """Fails if a process that has read a corpus goes on looking for files that the manifest no longer names."""
    builder = Builder(tmp_path)
    corpus = builder.add(line(1, body(1)), line(2, body(2)))
    before = read_rows(corpus)
    documents = builder.inputs[0].documents
    elsewhere = move_documents(builder, documents)
    repaired = replace(documents, parts=elsewhere.parts).to_bytes()  # as `rebuild_damaged` lets it name other files
    for part in documents.parts:
        for file in part.files:
            builder.place.delete(f"{documents.stage_folder}/{file.path}")
    builder.place.write(f"{documents.folder}/manifest.json", repaired)
    assert read_rows(corpus) == before


def table_file(part: Part, table: str) -> StoredFile:
    [file] = [file for file in part.files if file.table == table]
    return file


HARMS: dict[str, Callable[[Manifest], str]] = {
    "a text": lambda documents: f"{documents.stage_folder}/{table_file(documents.parts[-1], 'documents').path}",
    "a record": lambda documents: f"{documents.stage_folder}/{documents.parts[-1].paths[-1]}",
    "the manifest": lambda documents: f"{documents.folder}/manifest.json",
}


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "flipped"])
@pytest.mark.parametrize("harmed", HARMS)
def test_damaged_documents_are_named_by_their_own_path(tmp_path: Path, harmed: str, gone: bool) -> None:
    """Fails if damage in documents is blamed on the corpus, so that a run would build the wrong part again."""
    builder = Builder(tmp_path)
    corpus = builder.add(line(1, body(1)), line(2, body(2)))
    path = HARMS[harmed](builder.inputs[0].documents)
    file = Path(builder.place.to_full_path(path))
    data = file.read_bytes()
    file.unlink() if gone else file.write_bytes(data[:60] + bytes(byte ^ 4 for byte in data[60:]))
    manifests._read_checks_at.cache_clear()  # as in a process that has read nothing yet
    with pytest.raises(Damaged) as damaged:
        read_rows(corpus)
    assert damaged.value.path == path
    assert read_rows(corpus, VERDICT_COLUMNS)
    file.write_bytes(data)
    assert read_rows(corpus)


def test_chosen_rows_are_those_of_a_whole_reading(grown: Builder) -> None:
    """Fails if rows that are chosen from a table of several record batches are others, or come in other batches."""
    documents = grown.inputs[0].documents
    for part in documents.parts:
        whole = pa.Table.from_batches(read_table(grown.place, documents.with_parts((part,)), "documents", ("text",)))
        for chosen in ([], [0], [*range(0, len(whole), 2)], [*range(len(whole))]):
            rows = np.array(chosen, np.int64)
            found = [*read_part_rows(grown.place, documents.stage_folder, part, "documents", ("text",), rows)]
            texts = [row["text"] for batch in found for row in batch.to_pylist()]
            assert texts == whole.take(rows).column("text").to_pylist()
            assert all(batch.num_rows for batch in found)
