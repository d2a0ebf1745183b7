"""Shards read: every example by number, in an order that follows from the seed, with its masks and its documents.

    1. `files/` opens the shards of a set: a `ShardSet`, and its columns.
    2. `order.py` says which example is read at which slot of which epoch.
    3. `loader.py` gathers the examples of a step and masks them: `GatheredExamples`.
    4. `mixture.py` reads several sets as one, each with its share of the slots.
    5. `budgets.py` cuts a step into micro-batches of a number of tokens.

`records.py` gives examples to other training loops, `epoch_rows.py` a whole epoch as rows, leads from an example to its
documents and back, and counts what is lost next to a deleted document.
"""
