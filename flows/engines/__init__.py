"""Who calls the functions of a run: worker processes here, or those of a Dask cluster. No orchestrator.

contract.py       what an engine is: one call, `run(function, *arguments)`
choosing.py       the engine that a recipe names, for the time of a run
connecting.py     a client of a Dask scheduler: the one that answers now, or the one that comes again
cluster.py        a Dask scheduler's workers as an engine: calls sent, waited for, sent again where the scheduler went
identity.py       what must be the same on all machines that build one artifact: versions, and the program itself
on_worker.py      a call on a worker: in a pool of its own processes, with the limits, pulse and names of the local pool
training.py       a training on a worker that has GPUs: sent there, heard here, stopped from here
training_on_worker.py   the trainer's processes as children of that worker
checkpoint_copies.py    checkpoints on an object store, for a worker that goes on for another
looking.py        what a cluster is, as of now, for who plans a run
sight.py          what the workers must see of the machine that the run is started on: the store, local raw files

A worker gets values and gives values back. What it reads and writes is in the store and where the raw files are, so
either is on an object store, or in a folder that every machine has under the same path.
"""
