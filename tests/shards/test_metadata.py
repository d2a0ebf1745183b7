"""What other programs find in a folder of shards: the examples, and in their schema what is needed to use them."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.dataset import dataset as open_dataset
from small_corpus import put_corpus, row, words
from small_shards import put_shards

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from shards.build import PUBLISHED_SPLITS, plan_shards
from shards.masks.masking import MaskSettings
from shards.metadata import METADATA_KEY
from shards.reading.files.shard_set import ShardSet
from shards.settings import ShardSettings
from shards.tokens import plan_tokens
from tokenizers_train.build import plan_given_vocabulary
from tokenizers_train.vocabularies.vocabulary import build_bert_vocabulary

SETTINGS = ShardSettings(length=32, masking=MaskSettings(unit="whole-word", rate=0.2))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Manifest]:
    """Shards of two generations, each with train and held-out examples."""
    place = Place(str(tmp_path_factory.mktemp("store")))
    return place, put_shards(place, SETTINGS).shards


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """`datasets`, which asks nobody and keeps what it makes in a folder of the test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    yield pytest.importorskip("datasets")


def folder_of(place: Place, manifest: Manifest) -> Path:
    return Path(place.to_full_path(manifest.folder))


def facts_of(place: Place, manifest: Manifest) -> list[tuple[Path, dict[str, Any]]]:
    """Each file of examples, with what its schema says."""
    paths = sorted(folder_of(place, manifest).rglob("*.examples.arrow"))
    return [(path, json.loads(pa.ipc.open_file(path).schema.metadata[METADATA_KEY])) for path in paths]


def ids_of(place: Place, manifest: Manifest) -> dict[str, list[list[int]]]:
    """The token ids of each split, under the name that others give to it."""
    sets = {name: ShardSet(place, manifest, split) for split, name in PUBLISHED_SPLITS.items()}
    return {name: [shards[n].ids.tolist() for n in range(len(shards))] for name, shards in sets.items()}


def test_pyarrow_opens_the_examples(small: tuple[Place, Manifest]) -> None:
    """Fails if a file that is no shard is among them, or one is lost or in the other split."""
    place, manifest = small
    folder, expected = folder_of(place, manifest) / "examples", ids_of(*small)
    for format in ("ipc", "arrow", "feather"):
        found = open_dataset(folder, format=format, partitioning=["split"])
        assert METADATA_KEY in found.schema.metadata
        rows = found.to_table(columns=["ids", "split"]).to_pylist()
        for name, ids in expected.items():
            assert sorted(each["ids"] for each in rows if each["split"] == name) == sorted(ids) != []
    assert len(rows) == sum(map(len, expected.values()))


def test_datasets_opens_the_shards(small: tuple[Place, Manifest], offline: Any, tmp_path: Path) -> None:
    """Fails if `load_dataset` takes other files of the folder for examples, or does not find the splits."""
    folder, expected = folder_of(*small), ids_of(*small)
    for number, (path, options) in enumerate(
        [
            (str(folder), {}),
            (str(folder / "examples"), {}),
            ("arrow", {"data_dir": str(folder)}),
            ("arrow", {"data_dir": str(folder / "examples")}),
        ]
    ):
        found = offline.load_dataset(path, cache_dir=str(tmp_path / str(number)), **options)
        assert {name: sorted(split["ids"]) for name, split in found.items()} == {
            name: sorted(ids) for name, ids in expected.items()
        }


def test_one_shard_is_a_dataset_without_a_copy(small: tuple[Place, Manifest], offline: Any) -> None:
    """Fails if the rows are read into memory: they stay in the file's mapping."""
    path, _ = facts_of(*small)[0]
    before = pa.total_allocated_bytes()
    found = offline.Dataset(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
    assert pa.total_allocated_bytes() - before < 4_096 < path.stat().st_size
    assert found[0]["ids"] == pa.ipc.open_file(path).get_batch(0).column("ids")[0].as_py()


def test_a_shard_says_what_it_needs(small: tuple[Place, Manifest]) -> None:
    """Fails if the vocabulary, the masks or a setting is not told, or a path leads nowhere."""
    place, manifest = small
    found = facts_of(place, manifest)
    assert len(found) == 4 and all(facts == found[0][1] for _, facts in found)
    for path, facts in found:
        told = facts["vocabulary"]
        tokenizer = (path.parent / told["tokenizer"]).read_bytes()
        assert hashlib.sha256(tokenizer).hexdigest() == told["tokenizer_sha256"]
        ids = {role: special["id"] for role, special in told["special_tokens"].items()}
        assert (told["size"], ids) == (manifest.facts["vocab_size"], manifest.facts["special_ids"])
        assert facts["masking"]["mask_token"] == {"token": "[MASK]", "id": ids["mask"]}
        assert (facts["masking"]["kind"], facts["masking"]["rate"]) == ("dynamic", 0.2)
        told_settings = {**facts["shards"], "masking": SETTINGS.to_json()["masking"]}
        assert told_settings == {name: value for name, value in SETTINGS.to_json().items() if name != "target_tokens"}
        assert facts["version"] == manifest.build_version


@pytest.mark.parametrize("kind", ["static", "none"])
def test_masks_of_each_kind_are_told(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    settings = ShardSettings(length=32, masking=MaskSettings(kind=kind))
    for path, facts in facts_of(place, put_shards(place, settings).shards):
        assert facts["masking"]["kind"] == kind and ("mask_token" in facts["masking"]) == (kind == "static")
        assert ("mask_ids" in pa.ipc.open_file(path).schema.names) == (kind == "static")


def test_the_same_shards_have_the_same_bytes(small: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails if a clock or the folder of the store decides a byte of a file."""
    place = Place(str(tmp_path / "elsewhere"))
    again = put_shards(place, SETTINGS).shards
    assert [path.read_bytes() for path, _ in facts_of(place, again)] == [
        path.read_bytes() for path, _ in facts_of(*small)
    ]


def test_a_moved_store_leads_to_its_tokenizer(small: tuple[Place, Manifest], tmp_path: Path) -> None:
    place, manifest = small
    shutil.copytree(place.to_full_path(""), tmp_path / "moved")
    for path, facts in facts_of(Place(str(tmp_path / "moved")), manifest):
        found = (path.parent / facts["vocabulary"]["tokenizer"]).resolve()
        assert found.is_file() and found.is_relative_to(tmp_path / "moved")


def test_other_special_tokens_make_other_shards(tmp_path: Path) -> None:
    """Fails if shards of another vocabulary are taken because it gives all documents the same ids."""
    place = Place(str(tmp_path))
    corpus = put_corpus(place, {"g001-a-00000": [row(n, words(n)) for n in range(8)]})
    letters = [*"abcdefghijklmnopqrstuvwxyz.,", *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")]
    made = []
    for special in ("[CLS] [SEP]", "[SEP] [CLS]"):
        vocabulary = build_bert_vocabulary(["[PAD]", "[UNK]", *special.split(), "[MASK]", *letters])
        given = build_stage(place, plan_given_vocabulary("given", vocabulary))
        tokens = build_stage(place, plan_tokens(corpus, given, 7))
        shards = build_stage(place, plan_shards(corpus, tokens, given, vocabulary, ShardSettings(length=32)))
        made.append((tokens.content, {row[0] for row in ids_of(place, shards)["train"]}, vocabulary.find_id("[CLS]")))
    assert made[0][0] == made[1][0]
    assert [first for _, first, _ in made] == [{2}, {3}] == [{cls} for _, _, cls in made]
