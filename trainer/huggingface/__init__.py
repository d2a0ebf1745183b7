"""Reads and writes Hugging Face model folders, without using their library.

`checkpoints.py` reads and writes the folders and maps parameter names. `vocabulary_rows.py` adds rows for the tokens of
an adapted vocabulary. `start_model.py` checks the model that training starts from, or that a student learns from.
`sentence_transformers.py` reads and writes the additional files of sentence-transformers.
"""
