"""The model: ids of many sequences end to end in, one vector for every token out, heads on the tokens they need.

`objective.py` defines the modules that learn, and builds the one that settings ask for; `masked.py` is the one of
masked tokens, `distillation.py` that of a student. `encoder.py` and `attention.py` are their parts, and `batches.py`
is what they take.
"""
