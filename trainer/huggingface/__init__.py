"""Hugging Face folders without their library.

`checkpoints.py` reads and writes them, and maps the names of parameters; `embeddings.py` gives a model rows for the
tokens of an adapted vocabulary, `starting.py` holds what a plan must know of a model that a training starts from, or
that a student learns from. `sentences.py` reads and writes what sentence-transformers has around an encoder.
"""
