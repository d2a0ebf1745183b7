"""`plan.py` follows a run without building it, and says why a stage is reused or built."""
