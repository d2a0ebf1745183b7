"""Pre-training, on any number of processes, from the newest checkpoint on.

`loop.py` is the run as one page: through the steps of every phase to the export. `beginning.py` gives the model its
first weights, or those of a folder, `teaching.py` its teacher. `learner.py` takes one step, `feed.py` gives it this
process' share of the examples, `seen_counts.py` counts them by shard set, `optimizers.py` changes the weights, by
`moments.py` where torch has no such optimiser, `parallel.py` makes many processes one, `checkpoint.py` keeps everything
that is needed to go on, `exporting.py` writes one as a folder, `shard_check.py` sees to it that the shards are what was
written, `told.py` that all processes stop after the same step.

`lines.py` is what is said of a step, `tensorboard.py` shows it there too. `first_steps.py` looks at the first of them,
by what `health.py` knows of runs that become nothing; `sickness.py` notes on the device what was not finite first.
"""
