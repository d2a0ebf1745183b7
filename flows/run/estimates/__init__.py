"""Estimates of a run before it is started: documents, tokens, disk, memory and time of each stage.

`whole.py` is the page to read. `sampling.py` reads records from all over the raw files, `text_sizes.py` judges them and
scales their sizes to the whole. `rates.py` says what a stage takes for so much; `work.py` says how much
training, fine-tuning and answering is. `figures.py` has the results, and `room.py` refuses what does not fit.
"""
