"""Faults that do not end a run.

`damage.py` builds a damaged part again and leaves a record out that ends its worker, `skipped_files.py` an unreadable
raw file. `rule_limits.py` stops a run in which one rule drops much of a source. `locks.py` lets runs and clean-up take
turns, the runs of one recipe, and any two processes.
"""
