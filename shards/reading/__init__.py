"""Shards read: every example by number, in an order that follows from the seed, with its masks and its documents.

    1. `files/` opens the shards of a set: a `ShardSet`, and its columns.
    2. `order.py` says which example is read at a slot, and in which epoch.
    3. `loader.py` gathers the examples of a step and masks them: `GatheredExamples`.
    4. `mixture.py` reads several sets as one, each with its share of the slots.
    5. `budgets.py` divides a step into micro-batches of a number of tokens.

`records.py` gives examples to other training loops. `epoch_rows.py` writes a whole epoch as rows, finds the documents
of an example and the examples of a document, and counts what is lost next to a deleted document.

A slot is a position in the endless order in which a training reads examples. A window is some shards that are read
together. An example is live if none of its documents is deleted. The boundary of an example is the number of tokens of
its first segment.
"""
