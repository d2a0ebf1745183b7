"""The figures of a run: what one counts by hand, how two runs differ in them, and which run is the one before."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import Run

from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from flows.recipes.lock import Lock
from flows.run.record import figures as module
from flows.run.record.figures import (
    COUNT,
    FIGURES_FILE,
    Change,
    Figure,
    compare_figures,
    compute_figures,
    get_figures,
    write_figures,
)
from flows.run.record.run_record import RunRecord, write_run
from shards.reading.files.shard_set import ShardSet


def test_figures_are_what_one_counts_by_hand(finished: Run) -> None:
    """Fails if a figure is not that of the documents and examples themselves, one row after another."""
    figures = {name: figure.value for name, figure in compute_figures(finished.place, finished.manifests).items()}
    live = list(finished.corpus.iter_documents())
    examples = [e for split in ("train", "held-out") for e in ShardSet(finished.place, finished.outcome.shards, split)]
    assert figures["raw records"] == figures["raw records: pages"] + figures["raw records: notes"] == 56
    assert figures["documents"] + figures["dropped"] == figures["raw records"]
    assert figures["dropped: rules: gopher.min_words"] == figures["dropped: parse: damaged"] == 1
    assert figures["dropped share: parse: damaged"] == 1 / 56
    assert figures["kept"] == len(live) == figures["documents"] - figures["removed"]
    assert figures["duplicates"] == figures["removed: exact duplicate"] + figures["removed: near duplicate"] > 1
    assert figures["examples"] == len(examples)
    assert figures["mean tokens an example"] == pytest.approx(sum(len(e.ids) for e in examples) / len(examples))
    lengths = sorted(len(example.ids) for example in examples)
    assert figures["median tokens an example"] == lengths[(len(lengths) - 1) // 2]
    assert figures["language share: en"] == 1 == figures["language share (pages): en"]
    by_source = [figures[f"tokens: {name}"] for name in ("pages", "notes")]
    assert sum(by_source) == figures["tokens"] and min(by_source) > 0
    assert figures["mean tokens a document"] == figures["tokens"] / len(live)


def test_figures_are_kept_and_read_as_they_were(finished: Run, tmp_path: Path) -> None:
    place, record = Place(str(tmp_path)), finished.record
    figures = compute_figures(finished.place, finished.manifests)
    write_figures(place, record, figures)
    kept = get_figures(place, record)
    assert kept is not None and list(kept.items()) == list(figures.items())
    assert get_figures(finished.place, record) == figures  # none are kept there: they are counted


def test_kept_figures_that_are_damaged_are_counted_again(finished: Run, tmp_path: Path) -> None:
    place, record = Place(str(tmp_path)), finished.record
    damaged = module.serialize_figures(compute_figures(finished.place, finished.manifests)).replace(b": 56,", b": 57,")
    place.write(f"runs/{record.run_id}/{FIGURES_FILE}", damaged)
    assert get_figures(place, record) is None, "the artifacts are not in this store"


NUMBERS = st.one_of(st.integers(0, 1 << 40), st.floats(0, 1e12))
TABLES = st.dictionaries(
    st.sampled_from([f"{name}{detail}" for name in ("documents", "length") for detail in ("", ": a", ": b")]),
    st.builds(Figure, value=NUMBERS, unit=st.just("things"), kind=st.sampled_from([COUNT, module.SHARE, module.MEAN])),
)


@given(TABLES, TABLES)
def test_a_comparison_has_every_figure_once(before: dict[str, Figure], after: dict[str, Figure]) -> None:
    """Fails if a figure of one run is lost, or one that is in both is not what it is there."""
    changes = {change.name: change for change in compare_figures(before, after)}
    assert len(changes) == len(compare_figures(before, after)) and changes.keys() == before.keys() | after.keys()
    for name, change in changes.items():
        for value, figures in ((change.before, before), (change.after, after)):
            assert value == figures[name].value if name in figures else not value
    assert not any(change.change for change in compare_figures(after, after))


def test_a_reason_that_did_not_occur_is_none_of_it() -> None:
    """A reason of drops that one run does not have is 0 there; a mean of what is not there is nothing."""
    counted = {"dropped": Figure(value=4, unit="records", kind=COUNT)}
    more = {**counted, "dropped: empty": Figure(value=4, unit="records", kind=COUNT)}
    longer = {**more, "length: notes": Figure(value=2.5, unit="tokens", kind=module.MEAN)}
    assert [(c.before, c.after, c.change, c.relative) for c in compare_figures(longer, counted)] == [
        (4, 4, 0, 0.0),
        (4, 0, -4, -1.0),
        (2.5, None, None, None),
    ]
    assert compare_figures({}, more)[1] == Change(
        name="dropped: empty", unit="records", kind=COUNT, before=None, after=4
    )


def recorded(place: Place, run: Run, number: int, **changes: str) -> RunRecord:
    """A run on record, the later the higher its number."""
    record = replace(run.record, run_id=f"2026010{number}T000000000000-{changes.get('recipe', 'small')}", **changes)  # type: ignore[arg-type]
    write_run(place, record, Lock())
    return record


def test_the_run_before_is_the_newest_completed_one_of_the_recipe(finished: Run, tmp_path: Path) -> None:
    place, heard = Place(str(tmp_path)), list[str]()
    first, second = recorded(place, finished, 1), recorded(place, finished, 2)
    recorded(place, finished, 3, state="failed")
    recorded(place, finished, 4, recipe="not-small")
    last = recorded(place, finished, 5)
    assert (
        module.find_run_before(place, last, heard.append) == second and module.find_run_before(place, second) == first
    )
    assert module.find_run_before(place, first) is None and not heard
    place.write(f"runs/{second.run_id}/run.json", b"{}")
    assert module.find_run_before(place, last, heard.append) == first
    assert len(heard) == 1 and heard[0].startswith(f"runs/{second.run_id}/run.json is damaged")


def test_a_run_of_the_same_artifacts_takes_the_figures_of_the_one_before(finished: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    first, second = recorded(place, finished, 1), recorded(place, finished, 2)
    told = {"documents": Figure(value=7, unit="documents", kind=COUNT)}
    write_figures(place, first, told)
    assert module.compute_final_figures(place, second) == told  # the artifacts themselves are not in this store
    assert module.find_figures_before(place, second) == (first, told)


def test_damage_of_the_run_before_is_told(finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run ends over what is damaged of an older one."""
    place, heard = Place(str(tmp_path)), list[str]()
    recorded(place, finished, 1)
    last = recorded(place, finished, 2)

    def damaged(place: Place, record: RunRecord) -> None:
        raise Damaged("documents/notes/x.arrow", "its digest is of other bytes")

    monkeypatch.setattr("flows.run.record.figures.get_figures", damaged)
    assert module.find_figures_before(place, last, heard.append) is None
    assert heard[0].startswith("documents/notes/x.arrow is damaged")
