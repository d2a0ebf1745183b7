"""A store kept at its size: what runs, releases and readers still need, and the removal of everything else.

`garbage.py` says what is needed and by whom, and what nobody needs, and takes it away in an order in which nothing that
exists ever points to what does not. `run_records.py` keeps the newest records of runs.
"""
