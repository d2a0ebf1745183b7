"""Shards read: every example by number, in an order that follows from the seed, with its masks and its documents.

`shard_set.py` opens the files, `order.py` says which example is at which place of which epoch (`windows.py` where only
some shards are mixed), `loader.py` gives what a step reads (`columns.py` gathers the rows), `mixture.py` the same of
several sets, each with its share of the slots (`interleave.py` says which slots), `slots.py` what both can do.
`budgets.py` cuts a step into micro-batches of so many tokens, `materialised.py` has a whole epoch as rows. `records.py`
gives examples to other loops, one by one or in rows of one width. `verification.py` checks that the files are what was
written, `trace.py` walks from an example to its documents and back.

`near.py` has the windows of shards that are in an object store fetched, and keeps them while they are read.
"""
