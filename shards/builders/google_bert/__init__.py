"""The examples of BERT's authors, token for token as their script makes them.

`builder.py` is the input, `kernels.py` do the work, `plain.py` is the definition, and `python_random.py` draws Python's
own random numbers inside kernels.
"""
