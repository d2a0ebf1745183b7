"""Masks: the tokens that the model must guess, and what it sees in their place.

`masking.py` has the settings, how the rate changes over a training, and the functions for a column; `plain.py` has the
definition, and `kernels.py` draws them.
"""
