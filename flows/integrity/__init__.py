"""Checks and repairs a store.

    inventory ─► repair

`inventory.py` reads what the documents of a store say it holds, and compares that with the files. `repair.py` builds
what is damaged again, or a part next to its artifact, to compare the two; `store_lock.py` lets one process at a time
change a store.
"""
