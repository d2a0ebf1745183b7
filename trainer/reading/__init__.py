"""Shards for loops that are not ours: datasets of torch, and batches that Hugging Face models take.

`datasets.py` has a map-style dataset, for samplers and for `transformers.Trainer`, and a stream of batches that goes on
at the exact example; `batches.py` makes one tensor of many examples. What an example is made of, and a source for
Grain, is in the room `shards.reading`, without torch.
"""
