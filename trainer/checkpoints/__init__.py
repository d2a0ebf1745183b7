"""Checkpoints, from which training resumes.

`folders.py` writes the state after a step to a folder, and finds the newest complete one. `exporting.py` converts a
checkpoint to a model folder.
"""
