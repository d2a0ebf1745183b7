"""Estimates of a run before it is started: documents, tokens, disk, memory and time of each stage.

`whole.py` is the page to read. `sampling.py` reads records from all over the raw files, `rehearsal.py` builds every
stage from them in a temporary folder, `estimator.py` scales them to the whole, `work.py` says what memory and time a
stage takes. `figures.py` has the results, `room.py` keeps those of a plan for the run after it and refuses what does
not fit.
"""
