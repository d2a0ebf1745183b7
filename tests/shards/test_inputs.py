"""Inputs by name: ours, and those of installed packages."""

from pathlib import Path

import pytest
from installed_source import installed_at
from small_shards import put_shards

from corpora.errors import InputError
from corpora.store.places.place import Place
from shards.inputs import INPUTS
from shards.masks.masking import MaskSettings
from shards.reading.files.shard_set import ShardSet
from shards.settings import read_shard_settings

HALVES = """
from dataclasses import dataclass
from typing import ClassVar
from shards.builders.pieces.packing import FullSentencesInput
from corpora.store.settings import check_range

@dataclass(frozen=True, slots=True, kw_only=True)
class Halves(FullSentencesInput):
    kind: ClassVar[str] = "halves"
    version: ClassVar[int] = 4
    masked: ClassVar[bool] = False
    share: float = 0.5
    def check(self, common): check_range("shards.share", self.share, 0, 1)
    def build(self, columns, common, vocabulary):
        half = common._replace(length=int(common.length * self.share))
        return FullSentencesInput.build(self, columns, half, vocabulary)

class Plain: pass
"""


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = installed_at(tmp_path, monkeypatch)
    points = ("halves = halves_input:Halves", "plain = halves_input:Plain", "gone = halves_input:Gone")
    site.install("half-inputs", "halves_input", HALVES, *points, group="cloze.inputs")


@pytest.mark.usefixtures("halves")
def test_an_input_of_a_package_makes_shards(tmp_path: Path) -> None:
    """Fails if an input of someone else's is not found, not told of its settings, or not in the fingerprint."""
    settings = read_shard_settings({"input": "halves", "length": 40, "share": 0.25, "masking": {"seed": 3}})
    assert settings.masking == MaskSettings(kind="none", seed=3)
    plain = settings.to_json()
    assert (plain["input"], plain["input_version"], plain["input_package"]) == ("halves", 4, "half-inputs 1.2")
    assert plain["share"] == 0.25
    place = Place(str(tmp_path / "store"))
    shard_set = ShardSet(place, put_shards(place, settings).shards)
    assert len(shard_set) > 10 and max(len(example.ids) for example in shard_set.iter_live_examples()) == 10


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"input": "whole"}, "must be one of 'segment-pair', .*'halves'"),
        ({"input": "plain"}, "input 'plain', .* of half-inputs 1.2, is not a dataclass"),
        ({"input": "gone"}, "gone = halves_input:Gone .* cannot be loaded"),
        ({"input": "halves", "share": 2.0}, "shards.share = 2.0 is out of range"),
        ({"input": "halves", "shear": 1.0}, "shards has no key 'shear': did you mean 'share'"),
        ({"input": "halves", "masking": {"kind": "static"}}, "input = 'halves' masks nothing: leave it out"),
        ({"input": 3}, "shards.input = 3 is of the wrong type: it must be a text"),
        ({"input": "doc-sentences", "short_sequence_probability": 0.2}, "means nothing to input = 'doc-sentences'"),
        ({"own": {}}, "shards has no key 'own'"),
        ({"length": 4}, "shards.length = 4 is out of range"),
        ({"copies": 0}, "shards.copies = 0 is out of range"),
    ],
)
def test_what_is_wrong_is_told(table: dict[str, object], said: str) -> None:
    """Fails if a key that an input does not have, or a broken package, is taken without a word."""
    with pytest.raises(InputError, match=said):
        read_shard_settings(table)


def test_every_input_of_ours_is_as_it_comes() -> None:
    """Fails if a row of the registry is not a settings dataclass with usable defaults."""
    for kind, each in INPUTS.items():
        assert read_shard_settings({"input": kind}).own == each() and each.kind == kind
