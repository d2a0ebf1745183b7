"""The embedded Prefect server: `embedded.py` starts and stops it, `database.py` checks its database beforehand,
`history.py` bounds what it keeps, `password.py` and `guard.py` keep everybody else out. `api_recorder.py` records a run
with the API while that answers, and without it otherwise.
"""
