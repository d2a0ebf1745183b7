"""A store kept at its size: what runs, releases and readers still need, and the removal of everything else.

`needed.py` says what is needed and by whom, `garbage.py` what follows that nobody needs, `removal.py` takes it away in
an order in which nothing that is there ever points to what is not. `records.py` keeps the newest records of runs.
"""
