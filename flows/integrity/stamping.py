"""A store of format 1 with all its documents brought to format 2: artifacts, and what else is sealed since then.

Promise: as that of `corpora.store.migration`. A document of a run that cannot be understood is left as it is.
"""

from pathlib import Path

from corpora.store.damage import digest_in
from corpora.store.migration import Advance, Migration, migrate_store
from corpora.store.places import Place
from corpora.tombstones import read_tombstones, write_tombstones
from flows.integrity.faults import check_run
from flows.integrity.holdings import TOMBSTONES
from flows.recipes.lock import Lock
from flows.run.records import list_runs, raw_document, read_run, recorded_raw_paths


def stamp_store(place: Place, advance: Advance = lambda done, total: None) -> Migration:
    """Bring everything in a store to format 2. For one process at a time. Raises InputError."""
    done = migrate_store(place, advance)
    for path in place.sizes("corpora"):
        if path.endswith(f"/{TOMBSTONES}") and not digest_in(place.read(path)):
            corpus = path.split("/")[1]
            write_tombstones(place, corpus, read_tombstones(place, corpus))
    for run_id in list_runs(place):
        seal_run(place, run_id)
    return done


def seal_run(place: Place, run_id: str) -> None:
    """Write the documents of a run again as they are written today, where they are whole and have no digest."""
    if any(True for _ in check_run(place, run_id)):
        return
    folder = f"runs/{run_id}"
    lock = Lock.from_bytes(place.read(f"{folder}/recipe.lock"), Path(run_id))
    documents = {
        "recipe.lock": lock.to_bytes(),
        "raw.json": raw_document(recorded_raw_paths(place, run_id)),
        "run.json": read_run(place, run_id).to_bytes(),
    }
    for name, data in documents.items():
        if not digest_in(place.read(f"{folder}/{name}")):
            place.write(f"{folder}/{name}", data)
