"""Shards on the command line.

`cli.py` has the commands; `materialise.py` writes the examples of an epoch.
"""
