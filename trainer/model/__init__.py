"""The model: an encoder that computes one vector per token of concatenated sequences, and heads that read some of them.

`objective.py` defines the modules that compute losses, and builds the one that the settings select. `masked.py` has the
module for masked tokens, and `distillation.py` that for a student. They are made of `encoder.py` and `attention.py`,
and take the batches of `batches.py`.
"""
