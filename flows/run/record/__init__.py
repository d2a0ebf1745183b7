"""Records that a run leaves behind.

`run_record.py` is what is kept of a run, `listed_runs.py` reads it for `cloze runs` and `cloze status`, `heartbeat.py`
is what a run reports while it works. `figures.py` is the flat table of its numbers, from `ledger_balance.py`,
`lengths.py` and `example_shares.py`; `bounds.py` holds them to the recipe, `counts_text.py` puts them into words.
`task_scores.py` is what a task came to; `releases.py` keeps the history of names; `notifications.py` sends notices.
"""
