"""Training on any number of processes, from the newest checkpoint on: the loop that pre-training and fine-tuning share.

`loop.py` is a run as one page: through the steps of every phase to the export. It asks a course what is learnt:
`pretraining.py` is one, of phases of shards, and `trainer.tasks.finetuning.course` the other. `initial_weights.py`
gives a model its first weights, or those of a folder, and a student its teacher.
`learner.py` takes one step: it changes the weights, by `optimizer_algorithms.py` where torch has no such optimizer.
`feed.py` gives it this process's share of the examples. `parallel.py` makes many processes one, and says how they
compute. `checkpoints` keeps everything that is needed to resume.

`reports.py` is what is said of a step. It looks at the first ones, and knows of runs that become nothing.
"""
