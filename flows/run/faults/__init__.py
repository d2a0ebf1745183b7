"""Faults that do not end a run.

`damage.py` builds a damaged file of the store again and passes over a record that ends its worker, `skipped_files.py`
leaves an unreadable raw file out. `rule_limits.py` stops a run in which one rule drops much of a source. `locks.py`
lets runs and clean-ups take turns, and the runs of one recipe.
"""
