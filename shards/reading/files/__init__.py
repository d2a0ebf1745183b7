"""The files of a shard set: `shard_set.py` maps them, `columns.py` gathers rows of a whole split by kernels.

`shard_cache.py` keeps the shards of an object store in a folder of bounded size; `verification.py` compares files with
their manifests while a training reads them.
"""
