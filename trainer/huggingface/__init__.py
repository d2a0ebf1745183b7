"""Hugging Face folders without their library.

`checkpoints.py` reads and writes them, and maps the names of parameters; `vocabulary_rows.py` gives a model rows for
the tokens of an adapted vocabulary, `start_model.py` holds what a plan must know of a model that a training starts
from, or that a student learns from. `sentence_transformers.py` reads and writes what sentence-transformers has around
an encoder.
"""
