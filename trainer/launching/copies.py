"""The shards of an object store as files of this machine, for a training. No torch."""

import shutil
from dataclasses import replace
from pathlib import Path

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, read_manifest
from shards.reading.files.shard_cache import check_room, compute_bytes_needed
from shards.reading.files.shard_set import ShardSet
from trainer.jobs.job import TrainingJob


def with_local_shards(job: TrainingJob, folder: Path) -> TrainingJob:
    """The job with copies of its shards in a folder, to be mapped into memory; what is there is not fetched again.

    Where the order is windowed, the shards to train on are left where they are: they are fetched as they are read.
    Raises Damaged where the store does not hold what was written, InputError where the cache is too small for it.
    """
    store, copy, window = Place(job.store), Place(str(folder)), job.training.mixed_shards
    _check_room(job)
    for shards in job.shards:
        manifest = read_manifest(store, shards.folder)
        assert manifest is not None, f"{shards.folder} was planned for and is gone"
        for part in manifest.parts:
            assert part.record is not None, "the part of a manifest has a record"
            record = f"{manifest.stage_folder}/{part.record.path}"
            copy.write(record, store.read(record))
            if window is not None and part.labels.get("split") == "train":
                continue
            for file in part.files:
                path = f"{manifest.stage_folder}/{file.path}"
                if copy.find_size(path) != file.size_bytes:
                    with copy.create(path) as sink, store.open(path) as source:
                        shutil.copyfileobj(source, sink)
                        if sink.sha256() != file.sha256:
                            raise Damaged(path, "its bytes are not those that were written")
        copy.write(f"{shards.folder}/{MANIFEST}", manifest.to_bytes())
    return replace(job, store=str(folder), source="" if window is None else job.store)


def _check_room(job: TrainingJob) -> None:
    """Raise InputError where the shards that are read at once do not go into the cache."""
    window, most, store = job.training.mixed_shards, job.training.cache_bytes, Place(job.store)
    for phase, settings in enumerate(job.training.phase):
        sets = [ShardSet(store, job.shard_set(shards)) for shards in job.inputs_of(phase)]
        wanted = sum(compute_bytes_needed(shard_set, window, settings.batch) for shard_set in sets)
        check_room(f"The shards of {store.address} that phase {phase + 1} trains on", wanted, window, most)


def without_copy(copies: Place, damage: Damaged) -> InputError:
    """Remove a damaged copy; return the error to report."""
    if copies.find_size(damage.path) is not None:
        copies.delete(damage.path)
    return InputError(
        f"The copy {copies.to_full_path(damage.path)} of a shard was damaged and has been removed: {damage.what}. Run "
        "the same command again: it fetches the shard again and continues from the newest checkpoint."
    )
