"""Checks a store.

`inventory.py` reads what the documents of a store say it has, and compares that with the files. `rebuilt_part.py`
builds a part (a file set of an artifact) again next to it, to compare the two.
"""
