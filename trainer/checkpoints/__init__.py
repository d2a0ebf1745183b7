"""Checkpoints, from which a training resumes.

`folders.py` writes the state after a step as a folder, and finds the newest whole one. `exporting.py` turns one into a
model's folder.
"""
