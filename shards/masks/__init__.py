"""Masks: the tokens that the model must guess, and what it sees in their place.

`masking.py` has the settings and the functions for a column, `plain.py` the definition; `kernels.py` draws them,
`schedule.py` says how their rate changes, `rows.py` has them as rows of one length.
"""
