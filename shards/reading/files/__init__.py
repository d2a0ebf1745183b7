"""The files of a shard set: `shard_set.py` maps and verifies them, `columns.py` gathers rows of a split by kernels.

`shard_cache.py` keeps the shards of an object store in a folder of bounded size.
"""
