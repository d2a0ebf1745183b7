"""Estimates of a run before it is started: documents, tokens, disk, memory and time of each stage.

`whole.py` is the page to read. `sampling.py` reads records from all over the raw files, `text_sizes.py` judges them and
scales their sizes to the whole, and `stages.py` says what each stage has to work on; `work.py` does so of training,
fine-tuning and answering. `rates.py` is the table of what a stage takes for so much. `figures.py` has the results,
`room.py` keeps those of a plan for the run after it and refuses what does not fit.
"""
