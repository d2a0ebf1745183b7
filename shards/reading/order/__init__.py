"""The order of examples: a pure function of the seed and the slot.

`global_order.py` permutes all examples of an epoch, `windowed_order.py` shuffles shards and mixes a few neighbors,
`interleave.py` says which set of a mixture each slot belongs to.
"""
