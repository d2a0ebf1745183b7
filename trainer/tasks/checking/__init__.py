"""The judge of labelled data: what would spoil a score is seen before anything is learnt.

`check.py` is the page: `check_task` takes a task's settings and its files and returns a report of findings
(`findings.py`). `files.py` reads records with their lines; `labels.py`, `repeats.py`, `texts.py`, `hints.py` and
`kinds.py` look at them, each from its side. Nothing here is learnt, and nothing is changed.
"""
