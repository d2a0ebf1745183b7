"""Keeps a store at its size and in use: releases, what runs and readers still need, and the removal of the rest.

`garbage.py` finds what is needed and by whom, and removes what nobody needs in an order in which no existing file ever
points to a missing one. `run_records.py` keeps the newest records of runs. `release.py` gives the artifacts of a run a
name to use them by.
"""
