"""What a training resumes from.

`folders.py` writes the state of a step as a folder, and finds the newest whole one. `exporting.py` makes a model's
folder of one.
"""
