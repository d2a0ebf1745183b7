"""Calls the functions of a run on worker processes here, or on those of a Dask cluster. No orchestrator.

`contract.py` is what an engine is: one call, `run(function, *arguments)`. `open_engine.py` opens the one that a recipe
names. Of a cluster, `connect.py` keeps a client of its scheduler and reports its workers, `dask_cluster.py` sends calls
and trainings and waits for them, and `dask_worker.py` answers a call there in a pool of its own, starts a training and
keeps its checkpoints on an object store. `worker_checks.py` compares versions and program, and checks that workers see
the store and the raw files.

A worker gets values and returns values. What it reads and writes is in the store and where the raw files are: on an
object store, or in a folder that every machine has under the same path.
"""
