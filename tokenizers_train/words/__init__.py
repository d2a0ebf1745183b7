"""Words: the rules that divide a text into them, and counts of each.

`bert.py`, `gpt2.py` and `sentencepiece.py` are the three rules, each with its kernels; `characters.py` has tables of
what becomes of each character, taken from the reference itself. `counts.py` has what the rules share, and counts the
words of a column into the arrays of `table.py`.
"""
