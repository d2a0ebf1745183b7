"""Faults that do not end a run.

`rebuild_damaged.py` builds a damaged part again, `skipped_files.py` leaves an unreadable raw file out, `quarantine.py`
a record that ends its worker. `rule_limits.py` stops a run in which one rule drops much of a source. `gc_lock.py` lets
runs and clean-up take turns, `recipe_lock.py` the runs of one recipe, `held_file.py` any two processes.
"""
