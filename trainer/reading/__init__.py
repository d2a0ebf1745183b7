"""Shards for other training loops: datasets of torch, and batches that Hugging Face models take.

`datasets.py` has a map-style dataset, for samplers and for `transformers.Trainer`, and makes one tensor of many
examples. The parts of an example, and a source for Grain, are in the room `shards.reading`, without torch.
"""
