"""A training as it is handed to its processes: `job.py`. No torch.

`phases.py` says which shard sets a phase reads and how much of each, `start.py` is a model to begin with, `origins.py`
a checkpoint of another run to go on from, and `data_counts.py` what was read in the end.
"""
