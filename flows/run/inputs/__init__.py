"""Prepares what a run needs before its first stage.

`raw_files.py` gets raw files from their publishers, reports files that are not read and looks at the files that tasks
learn from, `folder_defaults.py` fits the defaults of `--source FOLDER`, `start_model.py` finds the model that a
training starts from.
"""
