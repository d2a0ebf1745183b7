"""Calls the functions of a run on worker processes here, or on those of a Dask cluster. No orchestrator.

`contract.py` is what an engine is: one call, `run(function, *arguments)`. `open_engine.py` opens the one that a recipe
names. Of a cluster, `connect.py` keeps a client of its scheduler and reports its workers, `cluster.py` sends calls and
waits for them, `on_worker.py` answers a call there in a pool of its own, `version_match.py` compares versions and
program, and `shared_paths.py` checks that workers see the store and the raw files. `training.py` sends a training to a
worker with GPUs, where `training_on_worker.py` starts it; `checkpoint_copies.py` keeps its checkpoints on an object
store.

A worker gets values and returns values. What it reads and writes is in the store and where the raw files are: on an
object store, or in a folder that every machine has under the same path.
"""
