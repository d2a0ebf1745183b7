"""Hugging Face folders without their library.

`checkpoints.py` reads and writes them, `names.py` is what their parameters are called, `embeddings.py` gives a model
rows for the tokens of a vocabulary that was adapted, `starting.py` is what a plan must know of a model that a training
begins with, `teaching.py` of one that a student learns from. `tokenizers.py` tells a tokenizer how much its model
reads.
"""
