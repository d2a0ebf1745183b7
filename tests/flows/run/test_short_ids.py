"""Runs and artifacts by short ids: what fits one is it, what fits several is refused with them."""

from pathlib import Path

import pytest
from small_recipe import Run

from corpora.errors import InputError
from flows.command.trainer_process import open_model_folder
from flows.command.vocabulary import find_vocabulary
from flows.run.addresses import find_artifacts, is_run_id, shorten_folder, shorten_run_ids, split_address


def test_short_ids_are_unique_and_fit_the_run_alone() -> None:
    """Fails if two runs have the same short id, or one is the beginning of another's id."""
    ids = [f"2026010{day}T{hour:02}0000{micro:06}-notes" for day in (1, 2) for hour in (1, 2) for micro in (7, 483910)]
    ids += ["20260101T010000000007-letters", "20260103T000000202601-notes", "an-old-run"]
    short = shorten_run_ids(ids)
    assert len(set(short.values())) == len(ids)
    for run_id, text in short.items():
        fits = [other for other in ids if other.startswith(text) or other.partition("-")[0].endswith(text)]
        assert fits == [run_id] or text == run_id
    assert short["an-old-run"] == "an-old-run" and short["20260101T010000000007-letters"].endswith("letters")
    assert is_run_id(short[ids[0]]) and not is_run_id("notes")


def test_an_artifact_is_found_by_the_beginning_of_its_fingerprint(
    finished: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fails if a short fingerprint is not taken in one of its forms, or stands for several artifacts."""
    store, shards = Path(finished.place.address), finished.outcome.shards
    short = shorten_folder(shards.folder)
    assert len(short) == len(shards.folder) - 16
    fingerprint = shards.fingerprint[:8]
    monkeypatch.chdir(store.parent)
    for address in (f"{store}/{short}", f"store/{fingerprint}", f"store/shards/{fingerprint}", fingerprint):
        place, inside = split_address(address)
        assert (Path(place.address).resolve(), inside) == (store.resolve(), shards.folder), address
        [found] = find_artifacts(address, "shards")
        assert found.manifest.folder == shards.folder
    vocabulary = finished.manifest("vocabularies")
    assert find_vocabulary(vocabulary.fingerprint[:8]).size == find_vocabulary(vocabulary.name).size
    with pytest.raises(InputError, match="no shards artifact"):
        find_artifacts(vocabulary.fingerprint[:8], "shards")
    with pytest.raises(InputError, match="There is no models artifact"), open_model_folder(fingerprint):
        pass
    (twin := tmp_path / "store" / "shards" / "small").mkdir(parents=True)
    for end in "ab":
        (twin / f"{fingerprint}{end * 16}").mkdir()
        (twin / f"{fingerprint}{end * 16}" / "manifest.json").write_bytes(shards.to_bytes())
    with pytest.raises(InputError, match=rf"2 artifacts in .* begins with '{fingerprint}': shards/small/"):
        find_artifacts(f"{tmp_path}/store/{fingerprint}")
