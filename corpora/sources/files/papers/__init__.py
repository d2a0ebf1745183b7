"""Texts with a format of their own: LaTeX, PubTator, patents of 1976 to 2001.

`formats.py` has a format for each and finds out which a text is; `latex.py` and `greenbook.py` read one.
"""
