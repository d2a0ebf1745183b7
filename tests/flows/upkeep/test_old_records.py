"""Records of old runs go; what something refers to stays."""

from pathlib import Path

import pytest
from recorded_run import made_record

from corpora.store.places.place import Place
from flows.integrity.inventory import find_faults, read_inventory
from flows.maintenance import run_records as records
from flows.maintenance.run_records import find_old_runs, keep_newest
from flows.recipes.lock import Lock
from flows.run.record.run_record import list_run_ids, write_run
from flows.run.record.run_status import list_runs


def put(place: Place, second: int, state: str = "completed", recipe: str = "small") -> str:
    """Record a run."""
    run_id = f"20260101T0000{second:02}000000-{recipe}"
    place.write(f"runs/{run_id}/recipe.toml", b"")
    write_run(place, made_record(run_id, recipe=recipe, state=state), Lock())
    return run_id


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(records, "MIN_COMPLETED", 2)
    return Place(str(tmp_path))


def test_the_newest_records_of_each_recipe_stay(place: Place) -> None:
    """Fails if a recipe that runs often takes the place of another's records, or where files of a run stay."""
    ids = [put(place, second) for second in range(1, 8)]
    other = put(place, 0, recipe="other")
    keep_newest(place, "small", 3, print)
    assert list_run_ids(place) == [other, *ids[-3:]]
    assert not any(path.split("/")[1] in ids[:-3] for path in place.list_files("runs"))
    assert find_old_runs(place, 3) == {}


def test_the_last_completed_runs_stay_behind_many_that_failed(place: Place) -> None:
    """Fails if it is forgotten what a store needs, because a recipe has failed for a while."""
    done = [put(place, second) for second in (1, 2, 3)]
    failed = [put(place, second, "failed") for second in range(4, 9)]
    keep_newest(place, "small", 2, print)
    assert list_run_ids(place) == [*done[1:], *failed[-2:]]


def test_a_half_removed_run_is_neither_lost_nor_damaged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a process that is killed as it removes a record leaves one that is told as something else."""
    ids, delete = [put(place, second) for second in range(1, 5)], Place.delete
    files = list(find_old_runs(place, 3)[ids[0]])

    def delete_one(self: Place, path: str) -> None:
        delete(self, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(Place, "delete", delete_one)
    for path in files:
        with pytest.raises(KeyboardInterrupt):
            keep_newest(place, "small", 3, print)
        assert place.find_size(path) is None
        assert {state.state for state in list_runs(place)} == {"completed"}
        assert list(find_faults(read_inventory(place))) == []
    monkeypatch.undo()
    keep_newest(place, "small", 3, print)
    assert {path.split("/")[1] for path in place.list_files("runs")} == {*ids[1:]}
