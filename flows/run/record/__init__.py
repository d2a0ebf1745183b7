"""Records that a run leaves behind.

`run_record.py` is what is kept of a run; `run_status.py` is what a run reports while it works, and reads both for
`cloze runs` and `cloze status`. `figures.py` is the flat table of its numbers, from `ledger_balance.py`, and holds them
to the bounds of the recipe; `counts_text.py` puts them into words. `task_scores.py` is what a task came to;
`releases.py` keeps the history of names; `notifications.py` sends notices.
"""
