"""The model: ids of many sequences end to end in, one vector for every token out, heads on the tokens they need.

`objective.py` says what every module that learns is like, and builds the one that settings ask for; `masked.py` is the
one of masked tokens, `distillation.py` that of a student. `encoder.py`, `attention.py`, `rotary.py` and `heads.py` are
their parts, `first_weights.py` says how these begin, `batches.py` is what they take.
"""
