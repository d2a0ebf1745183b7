"""A store kept at its size and in use: releases, what runs and readers still need, and the removal of the rest.

`garbage.py` says what is needed and by whom, and what nobody needs, and takes it away in an order in which nothing that
exists ever points to what does not. `run_records.py` keeps the newest records of runs. `release.py` gives the artifacts
of a run a name to use them by.
"""
