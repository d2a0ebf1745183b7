"""A training as its processes receive it: `job.py`, with what each phase reads. No torch.

`phases.py` settles, when a training is planned, which shard sets a phase reads and how much of each, and counts what
was read in the end; `start.py` is a model to start from, `origins.py` a checkpoint of another run to continue from.
"""
