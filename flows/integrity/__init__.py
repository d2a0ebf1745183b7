"""Checks a store.

`inventory.py` reads what the documents of a store say it holds, and compares that with the files. `rebuilt_part.py`
builds a part again next to its artifact, to compare the two.
"""
