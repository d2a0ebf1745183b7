"""The judge of labeled data: what would spoil a score is seen before anything is learned.

`check.py` is the page: `check_task` takes a task's settings and its files and returns a report of findings
(`findings.py`, which also reads records with their lines); `labels.py`, `repeats.py`, `texts.py` and `per_task.py`
look at them, each from its side. Nothing here is learned, and nothing is changed.
"""
