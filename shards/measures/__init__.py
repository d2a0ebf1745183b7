"""Measures of what examples give away.

`surfaces.py` counts how examples of two segments look, with no word read, and says how well their labels can be guessed
from that.
"""
