"""Exports of a run and of shards, opened by the tools of others."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from pyarrow.dataset import dataset as open_dataset
from small_recipe import Run
from small_shards import put_shards

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.export.cards.data_card import EXAMPLE_FOLDER
from flows.export.export import ExportSettings, choose_artifact, write_export
from flows.run.addresses import Artifact
from flows.run.record.ledger_balance import sum_records
from flows.run.record.run_record import begin_run, write_run
from shards.build import PUBLISHED_SPLITS
from shards.masks.masking import MaskSettings
from shards.metadata import METADATA_KEY
from shards.reading.files.shard_set import ShardSet
from shards.settings import ShardSettings

HOSTILE = 'a"b: |<img src=x> `x` [l](http://e.example) {{x}} \u2028*\U0001f600'


@pytest.fixture(scope="module")
def recorded(finished: Run, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The store of a run, with its record."""
    store = tmp_path_factory.mktemp("recorded") / "store"
    shutil.copytree(finished.place.to_full_path(""), store)
    place, record = Place(str(store)), finished.record
    begin_run(place, record.run_id, finished.recipe)
    toml = finished.recipe.text.replace('path = "raw/notes"', 'path = "/secret/raw/notes"\nlicense = "CC BY-SA 4.0"')
    write_run(place, replace(record, recipe_toml=toml, overrides={"seed": "1", "store": "/secret/s"}), finished.lock)
    return place


@pytest.fixture(scope="module")
def folders(recorded: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The exports of its corpus and of its shards."""
    parent = tmp_path_factory.mktemp("exports")
    for kind in ("corpora", "shards"):
        arguments = ["export", recorded.address, str(parent / kind), "--kind", kind]
        assert run_command_line(arguments, parent) == 0
    return {kind: parent / kind for kind in ("corpora", "shards")}


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Shards with static masks, of which a later generation has taken documents away."""
    place = Place(str(tmp_path_factory.mktemp("masked") / "store"))
    settings = ShardSettings(length=32, masking=MaskSettings(kind="static"))
    return Artifact(place=place, manifest=put_shards(place, settings, gone=(1, 2, 4)).shards)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """`datasets`, which asks nobody and keeps what it makes in a folder of the test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    yield pytest.importorskip("datasets")


def published(folder: Path, target: Path) -> Path:
    """A copy of an export with the card under the name that a hub reads."""
    shutil.copytree(folder, target)
    shutil.copy(target / "_README.md", target / "README.md")
    return target


def card_of(folder: Path) -> tuple[dict[str, Any], str]:
    """The head and the text of a card."""
    _, head, text = (folder / "_README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), text


@pytest.mark.parametrize("is_published", [False, True])
def test_datasets_opens_what_was_exported(
    is_published: bool, folders: dict[str, Path], recorded: Place, finished: Run, offline: Any, tmp_path: Path
) -> None:
    """Fails if `load_dataset` refuses a folder, finds other features than the card says, or other rows."""
    if is_published:
        folders = {kind: published(folder, tmp_path / kind) for kind, folder in folders.items()}
    documents = offline.load_dataset(str(folders["corpora"]), cache_dir=str(tmp_path / "cache"))
    expected = {document.id.hex(): document for document in finished.corpus.iter_documents()}
    rows = [row for split in ("train", "validation") for row in documents[split]]
    assert len(rows) == len(expected)
    for row in rows:
        document = expected[row["id"]]
        assert (row["text"], row["title"], row["group"]) == (document.text, document.title, document.group)
        assert (row["raw_file"], row["raw_offset"]) == (document.locator.file, document.locator.offset)
    examples = offline.load_dataset(str(folders["shards"]), cache_dir=str(tmp_path / "cache"))
    for split, name in PUBLISHED_SPLITS.items():
        shards = ShardSet(recorded, finished.outcome.shards, split)
        assert len(examples[name]) == len(shards) > 0
        row, example = examples[name][3], shards[3]
        assert (row["input_ids"], row["boundary"]) == (example.ids.tolist(), example.boundary)
        assert (row["documents"], row["label"]) == ([id.hex() for id in example.documents], example.label)
    assert examples["train"].features["input_ids"] == offline.List(offline.Value("uint16"))


def test_pandas_and_pyarrow_open_what_was_exported(folders: dict[str, Path]) -> None:
    """Fails if the folder as it is given to them has a file that is no Parquet file to them, or rows get lost."""
    pandas = pytest.importorskip("pandas")
    for kind, folder in folders.items():
        files = [*folder.glob("data/*.parquet")]
        assert {path.name.partition("-")[0] for path in files} == {"train", "validation"}
        expected = sorted(row for path in files for row in pq.read_table(path).column(0).to_pylist())
        for inside in (folder, folder / "data"):
            frame = pandas.read_parquet(inside)
            assert sorted(frame.iloc[:, 0]) == expected
            opened = open_dataset(inside)
            assert sorted(opened.to_table().column(0).to_pylist()) == expected
            assert opened.schema.names == [*frame.columns] == pq.read_schema(files[0]).names, kind
        one = pandas.read_parquet(sorted(folder.glob("data/train-*")))
        assert 0 < len(one) < len(expected)


def test_exported_examples_name_their_vocabulary_and_masks(folders: dict[str, Path], finished: Run) -> None:
    """Fails if who has the files of a folder cannot find the tokenizer, the [MASK] token or the settings by them."""
    for path in folders["shards"].glob("data/*.parquet"):
        facts = json.loads(pq.read_schema(path).metadata[METADATA_KEY])
        tokenizer = path.parent / facts["vocabulary"]["tokenizer"]
        assert hashlib.sha256(tokenizer.read_bytes()).hexdigest() == facts["vocabulary"]["tokenizer_sha256"]
        added = json.loads(tokenizer.read_bytes())["added_tokens"]
        assert facts["masking"]["mask_token"] in [{"token": each["content"], "id": each["id"]} for each in added]
        assert facts["vocabulary"]["content"] == finished.manifest("vocabularies").content
        assert facts["shards"]["length"] == finished.outcome.shards.facts["length"]
    assert pq.read_schema(next(folders["corpora"].glob("data/*"))).metadata is None


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated", "ignore:The inplace keyword in DataFrame")
def test_the_metadata_are_croissant(folders: dict[str, Path]) -> None:
    """Fails if mlcroissant finds an error or has a warning, or cannot read records through it."""
    mlcroissant = pytest.importorskip("mlcroissant")
    for folder in folders.values():
        described = mlcroissant.Dataset(str(folder / "_croissant.json"))
        issues = described.metadata.ctx.issues
        assert (issues.errors, issues.warnings) == (set(), set())
        assert str(described.metadata.ctx.conforms_to.value).endswith("/croissant/1.1")
        named = {node.content_url: node.sha256 for node in described.metadata.file_objects}
        there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert set(named) == there - {"_croissant.json"} and all(named.values())
        assert str(described.metadata.date_published)[:10] == "2026-01-01"
        records = list(described.records("validation"))
        table = pq.read_table(folder / "data", filters=None).num_rows
        assert 0 < len(records) < table
        assert set(records[0]) == {
            f"validation/{name}" for name in pq.read_schema(next((folder / "data").iterdir())).names
        }


def test_the_card_has_the_numbers_of_the_ledgers(folders: dict[str, Path], finished: Run) -> None:
    """Fails if a count of the card is not that of a ledger, or a drop, a licence or an artifact is not told."""
    for kind, folder in folders.items():
        head, text = card_of(folder)
        assert [each["split"] for each in head["configs"][0]["data_files"]] == ["train", "validation"]
        assert head["license"] == ["cc-by-sa-4.0", "unknown"] and head["language"] == ["en"]
        records = sum_records([m for m in finished.manifests if m.kind == "documents"])
        for name, number in records.outcomes.items():
            if name.startswith("dropped: "):
                step, _, reason = name.removeprefix("dropped: ").partition(": ")
                assert re.search(rf"\| {step} \| {re.escape(reason).replace('_', '.*_')} \| {number} \|", text), name
        verdicts = finished.manifest("verdicts").ledger.find_account("documents")
        assert f"{verdicts.outcomes['removed: near duplicate']} | " in text.partition("near duplicate | ")[2][:6]
        assert "| notes | CC BY-SA 4.0 |" in text and "| pages | not stated |" in text
        assert all(m.content in text for m in finished.manifests if m.kind in ("documents", "verdicts", "corpora"))
        assert "secret" not in text and "--set store=" in text
        assert all(file.sha256 in text for g in finished.lock.generations for files in g.values() for file in files)
        rows = sum(each["num_examples"] for each in head["dataset_info"]["splits"])
        assert f"{rows:,} {'examples' if kind == 'shards' else 'documents'} of the" in text


def test_the_same_artifact_gives_the_same_bytes(folders: dict[str, Path], recorded: Place, tmp_path: Path) -> None:
    """Fails if a clock, an address or an order decides a byte."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(recorded.to_full_path(""), moved)
    for kind, folder in folders.items():
        write_export(choose_artifact(str(moved), kind, None), tmp_path / kind, ExportSettings())
        files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        again = {p.relative_to(tmp_path / kind): p.read_bytes() for p in (tmp_path / kind).rglob("*") if p.is_file()}
        assert again == files and len(files) >= 4


def test_deleted_examples_are_not_exported(masked: Artifact, tmp_path: Path) -> None:
    """Fails if a row is exported that a later generation has taken away, or one is lost that it has not."""
    write_export(masked, tmp_path / "a", ExportSettings(splits=("train",)))
    found = pq.read_table(tmp_path / "a" / "data").to_pylist()
    shards = ShardSet(masked.place, masked.manifest)
    assert [row["example_id"] for row in found] == [example.example_id for example in shards.iter_live_examples()]
    assert 0 < len(found) < len(shards)
    first = next(shards.iter_live_examples())
    assert found[0]["mask_positions"] == first.mask_positions.tolist()
    assert found[0]["mask_ids"] == first.mask_ids.tolist()
    assert not [*(tmp_path / "a" / "data").glob("validation*")]


def test_the_code_of_the_card_trains(
    masked: Artifact, tmp_path: Path, offline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if who has nothing but the folder cannot train on it as its card says."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write_export(masked, tmp_path / "a", ExportSettings())
    _, text = card_of(tmp_path / "a")
    opening, training = re.findall("```python\n(.*?)```", text, re.DOTALL)
    for code in (opening, training.replace("range(20)", "range(4)")):
        exec(compile(code.replace(EXAMPLE_FOLDER, str(tmp_path / "a")), "README.md", "exec"), {})
    losses = re.findall(r"^\d+ (\d+\.\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(losses) == 4 and all(0 < float(loss) < 50 for loss in losses)


def test_what_is_meant_must_be_one_thing(recorded: Place, finished: Run, tmp_path: Path) -> None:
    """Fails if one of several is taken unasked, or the word does not say how to name it."""
    with pytest.raises(
        InputError, match=r"2 things to export.*--kind corpora --name small, --kind shards --name small"
    ):
        choose_artifact(recorded.address, None, None)
    with pytest.raises(InputError, match=r"no such corpus or shard set.*--kind shards --name small"):
        choose_artifact(recorded.address, "shards", "other")
    with pytest.raises(InputError, match="--kind = 'models' is not known"):
        choose_artifact(recorded.address, "models", None)
    with pytest.raises(InputError, match="no corpus or shard set"):
        choose_artifact(recorded.to_address("documents"), None, None)
    assert (
        choose_artifact(recorded.to_address(finished.outcome.shards.folder), None, None).manifest
        == finished.outcome.shards
    )
    with pytest.raises(InputError, match="inside the store"):
        write_export(
            choose_artifact(recorded.address, "shards", None), Path(recorded.to_full_path("out")), ExportSettings()
        )


def test_damage_ends_an_export_without_a_folder(masked: Artifact, tmp_path: Path) -> None:
    """Fails if bytes that are not what was written are exported, or half a folder is left."""
    store = tmp_path / "store"
    shutil.copytree(masked.place.to_full_path(""), store)
    table = next((store / masked.manifest.folder).rglob("held-out*.examples.arrow"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(Damaged, match=re.escape(table.name)):
        write_export(Artifact(place=Place(str(store)), manifest=masked.manifest), tmp_path / "a", ExportSettings())
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.server
def test_artifacts_of_an_object_store_are_exported(masked: Artifact, s3_store: Place, tmp_path: Path) -> None:
    """Fails if the bytes are not those of the same artifact in a folder."""
    for path in masked.place.list_files(""):
        s3_store.write(path, masked.place.read(path))
    write_export(masked, tmp_path / "here", ExportSettings())
    write_export(choose_artifact(s3_store.address, "shards", None), tmp_path / "there", ExportSettings())
    for file in (tmp_path / "here" / "data").iterdir():
        assert (tmp_path / "there" / "data" / file.name).read_bytes() == file.read_bytes()
