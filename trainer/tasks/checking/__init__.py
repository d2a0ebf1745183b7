"""The judge of labelled data: what would spoil a score is seen before anything is learnt.

`check.py` is the page: `check_task` takes a task's settings and its files and returns a report of findings
(`findings.py`, which also reads records with their lines); `labels.py`, `repeats.py`, `texts.py` and `per_task.py`
look at them, each from its side. Nothing here is learnt, and nothing is changed.
"""
