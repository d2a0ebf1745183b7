"""Counts of a document: its words, marks, lines, paragraphs, and what is repeated of them.

`definition.py` defines them for one text; `kernels.py` counts a column, with words as `words.py` finds them and
repeated runs of words as `repeats.py` numbers them.
"""
