"""What a run would take, before it is started: documents, tokens, disk, memory and time of each stage.

`whole.py` is the page to read. `sampling.py` reads records from all over the raw files, `rehearsal.py` builds every
stage from them in a folder that goes again, `scaling.py` says what each part of that stands for, `work.py` what memory
and time a stage takes. `figures.py` has what comes out, `room.py` refuses what does not fit, `kept.py` keeps the
estimates of a plan for the run after it, and compares them with what came.
"""
