"""Training on any number of processes, from the newest checkpoint on: the loop that pre-training and fine-tuning share.

`loop.py` is a run as one page: through the steps of every phase to the export. It asks a course what is learnt:
`pretraining.py` is one, of phases of shards, and `trainer.tasks.finetuning.course` the other. `initial_weights.py`
gives a model its first weights, or those of a folder, and a student its teacher. `learner.py` takes one step, `feed.py`
gives it this process's share of the examples, `optimizers.py` changes the weights, by `optimizer_algorithms.py` where
torch has no such optimizer, `parallel.py` makes many processes one, `machine.py` says how they compute,
`shard_check.py` sees to it that the shards are what was written. `checkpoints` keeps everything that is needed to go
on.

`log_lines.py` is what is said of a step. `health.py` looks at the first of them, and knows of runs that become nothing.
"""
