"""Runs by short ids, as git has them for commits: a unique beginning of the id, or a unique end of its moment.

    20261126T184802483910-news     the id of a run
    483910                         its short id, which `cloze runs` lists: the last digits of the moment, six or more
    20261126T18                    its beginning, where no other run began in that hour

What fits several runs is refused, with those that it fits. Cost: a listing of `runs/`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.run.record.run_record import RunRecord, list_runs, moment_of, newest_runs, read_run
from flows.run.store_address import RUNS, split_address

SHORTEST = 6  # digits of a short id
MOST = 5  # runs named where a name fits several
_RUN_ID = re.compile(r"\d{4,}(T\d*)?(-[^/]*)?")


def short_run_ids(run_ids: Sequence[str]) -> Mapping[str, str]:
    """Return the short id of each run of a store; the whole id if it has no moment, or another run has the same one.

    >>> list(short_run_ids(["20261126T184802483910-a", "20261127T184802483910-b", "20261128T000000772041-c"]).values())
    ['20261126', '20261127', '772041']
    """
    moments = {run_id: run_id.partition("-")[0] for run_id in run_ids if moment_of(run_id) is not None}
    short = dict(zip(run_ids, run_ids, strict=True))
    for length in range(SHORTEST, max(map(len, moments.values()), default=0)):
        fits = Counter(run_id[:length] for run_id in run_ids) + Counter(m[-length:] for m in moments.values())
        for run_id, moment in moments.items():
            unique = [text for text in (moment[-length:], run_id[:length]) if fits[text] == 1]
            if short[run_id] == run_id and unique:
                short[run_id] = unique[0]
    return short


def is_run_id(text: str) -> bool:
    """Tell whether a text has the form of a run's id, of its beginning, or of its short id.

    >>> is_run_id("483910"), is_run_id("20261126T18"), is_run_id("news.toml"), is_run_id("2026.toml")
    (True, True, False, False)
    """
    return _RUN_ID.fullmatch(text) is not None


def whole_run_id(name: str, place: Place) -> str:
    """Return the id of the recorded run that a name fits. Raises InputError if it fits none, or several."""
    run_ids = list_runs(place)
    fits = [name] if name in run_ids else [run_id for run_id in run_ids if _fits(name, run_id)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        listed = ", ".join(fits[-MOST:])
        raise InputError(f"{len(fits)} runs fit {name!r}, the newest: {listed}. Give more of the id.")
    raise InputError(
        f"There is no run {name!r} in {place.to_address('')}. `cloze runs` lists those of a store; --store names "
        "another store, and a run of any store is named by its folder, STORE/runs/RUN."
    )


def _fits(name: str, run_id: str) -> bool:
    return run_id.startswith(name) or (len(name) >= SHORTEST and run_id.partition("-")[0].endswith(name))


def find_run(name: str, store: str) -> tuple[Place, RunRecord]:
    """Return the run that an id, a short one, a run's folder, or a store means. Raises InputError.

    store: in which ids are looked up
    """
    if "/" not in name and not Path(name).is_dir():
        place = Place(store)
        return place, read_run(place, whole_run_id(name, place))
    place, inside = split_address(name)
    if inside.startswith(f"{RUNS}/"):
        return place, read_run(place, whole_run_id(inside.split("/")[1], place))
    newest = next((run for run in newest_runs(place) if run.state == "completed"), None)
    if newest is None:
        raise InputError(f"There is no completed run in {place.to_address('')}: `cloze run` records one.")
    return place, newest
