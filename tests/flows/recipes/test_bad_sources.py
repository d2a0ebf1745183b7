"""Raw files that are damaged, and what does not belong together: one paragraph each, with file and remedy."""

import gzip
import lzma
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from small_recipe import RECIPE, fill, new_world, run_lock

from corpora.errors import InputError, UnreadableFile
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import parse_recipe
from trainer.build import plan_model
from trainer.settings.model import ModelSettings
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

SAMPLES = Path(str(files("corpora") / "samples"))
WARC = SAMPLES / "cc_news" / "CC-NEWS-20260103000000-00000.warc.gz"
OPENWEBTEXT = SAMPLES / "openwebtext" / "openwebtext.tar.xz"


SIZES = {"one": "400", "other": "300"}


def cut(data: bytes) -> bytes:
    """The first two thirds."""
    return data[: 2 * len(data) // 3]


def cut_book(_: bytes) -> bytes:
    return cut((SAMPLES / "books" / "the-map-of-hollin-marsh.epub").read_bytes())


CASES: dict[str, tuple[str, str, Callable[[bytes], bytes], str]] = {
    "gzip": ("files", "a.jsonl.gz", lambda _: cut(gzip.compress(b"{}\n" * 9999)), "cannot be read to its end"),
    "xz": ("openwebtext", "openwebtext.tar.xz", lambda _: cut(OPENWEBTEXT.read_bytes()), "Get the file again"),
    "inner tar": (
        "openwebtext", "urlsf_subset00-1_data.xz", lambda _: lzma.compress(b"\1" * 5000), "Get the file again",
    ),
    "zip": ("bookcorpus", "book.epub", cut_book, "1 of 1 records are damaged"),
    "warc": ("cc-news", "a.warc.gz", lambda _: cut(WARC.read_bytes()), "Get the file again"),
    "plain warc": ("cc-news", "a.warc", lambda _: cut(gzip.decompress(WARC.read_bytes())), "Get the file again"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_raw_file_is_one_paragraph(name: str, tmp_path: Path) -> None:
    """Fails where damage passes, ends in a traceback, or the message lacks the file or the remedy."""
    kind, file, damaged, said = CASES[name]
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / file).write_bytes(damaged(b""))
    text = f'[[source]]\nkind = "{kind}"\nname = "own"\npath = "raw/{file}"\n'
    recipe = parse_recipe(text, tmp_path / "bad.toml", {})
    lock = resolve(recipe, Lock(), StatCache()).lock
    with pytest.raises(InputError) as caught:
        run_lock(Place(recipe.store), recipe, lock)
    message = str(caught.value)
    assert said.lower() in message.lower() and ("own" in message or file in message), message
    assert "\n" not in message and len(message) < 700
    assert isinstance(caught.value, UnreadableFile) == (name != "zip")  # of a book no more is damaged than a record
    shutil.rmtree(raw)


def test_shards_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    """Fails where a model is planned on ids that mean other tokens."""
    runs = [fill(new_world(tmp_path / name, RECIPE)).run(**{"vocabulary.size": size}) for name, size in SIZES.items()]
    shards, other = runs[0].outcome.shards, runs[1].outcome.vocabulary
    training = TrainingSettings(phase=(PhaseSettings(steps=1),))
    with pytest.raises(
        InputError, match=r"The shards 'small' of phase 1 have a different vocabulary \(400 tokens\)"
    ) as caught:
        plan_model(runs[0].place, "m", [shards], other, ModelSettings(size="tiny"), training)
    assert "must read shards of one vocabulary" in str(caught.value)
    assert plan_model(runs[0].place, "m", [shards], runs[0].outcome.vocabulary, ModelSettings(size="tiny"), training)
