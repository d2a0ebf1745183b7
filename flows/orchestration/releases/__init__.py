"""`release.py` promotes what a run built, `approval.py` waits for the person who approves it."""
