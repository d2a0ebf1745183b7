"""An existing vocabulary fitted to a domain: the tokens it lacks, and the vocabulary that has them.

`adapt.py` chooses the tokens; `cuts.py` says how words fall into pieces while tokens are being added.
"""
