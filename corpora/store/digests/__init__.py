"""Digests: what came out of a build, as numbers that do not depend on how it was cut.

`content.py` hashes rows in their order (`content_kernels.py` are its kernels). `arrow_layout.py` finds the columns of a
record batch in an Arrow file and gives each a digest.
"""
