"""Prepares what a run needs before its first stage.

`fetch.py` gets raw files from their publishers, `folder_defaults.py` fits the defaults of `--source FOLDER`,
`unread_files.py` reports files that are not read, `start_model.py` finds the model that a training starts from,
`labelled_files.py` looks at the files that tasks learn from.
"""
