"""Shards in, checkpoints and fine-tuned models out: the one package that may import torch.

It holds no code so far; the import rules of the house are checked for it all the same.
"""
