"""Records that a run leaves behind.

`run_record.py` has what is recorded of a run; `run_status.py` has the heartbeat of a run that is under way, and reads
both for `cloze runs` and `cloze status`. `figures.py` computes the flat table of a run's numbers, from the accounts of
`ledger_balance.py`, and checks the bounds of the recipe; `counts_text.py` formats numbers for people. `task_scores.py`
reads the scores of tasks; `releases.py` keeps the history of release names; `notifications.py` sends notices.
"""
