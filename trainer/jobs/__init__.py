"""A training as its processes receive it: `job.py`. No torch.

`phases.py` settles which shard sets a phase reads and how much of each, `start.py` is a model to start from,
`origins.py` a checkpoint of another run to continue from, and `data_counts.py` what was read in the end.
"""
