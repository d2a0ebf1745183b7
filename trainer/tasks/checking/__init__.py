"""Checks labeled data before training, for problems that would distort a score.

`check.py` is the entry point: `check_task` takes a task's settings and files, and returns a report of findings.
`findings.py` defines findings, and reads records with their lines. `labels.py`, `repeats.py`, `texts.py` and
`per_task.py` contain the checks. Nothing is trained, and no file is changed.
"""
