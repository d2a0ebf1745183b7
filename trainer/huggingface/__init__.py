"""Hugging Face folders without their library.

`checkpoints.py` reads and writes them, `names.py` maps the names of parameters, `embeddings.py` gives a model rows for
the tokens of an adapted vocabulary, `starting.py` holds what a plan must know of a model that a training starts from,
`teaching.py` of one that a student learns from. `tokenizers.py` sets how much a tokenizer's model reads.
"""
