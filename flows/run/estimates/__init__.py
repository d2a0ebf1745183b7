"""Estimates of a run before it is started: documents, tokens, disk, memory and time of each stage.

`run_estimates.py` is the page to read. `sampling.py` reads records from all over the raw files, `text_sizes.py` judges
them and scales their sizes to the whole. `work.py` says how much training, fine-tuning and answering is,
`stage_estimates.py` what a stage costs for so much work. `capacity.py` refuses a run that does not fit.
"""
