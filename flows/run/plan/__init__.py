"""`plan.py` follows a run without building it, `reasons.py` says why a stage is reused or built."""
