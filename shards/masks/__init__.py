"""Masks: which tokens the model must guess, and what it sees in their place.

`masking.py` has the settings, the definition and the function for a column; `kernels.py` draws them.
"""
