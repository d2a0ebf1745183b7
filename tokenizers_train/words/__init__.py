"""Words: the rules that divide a text into them, and counts of each.

`rule.py` has what the rules of words share. `bert.py`, `gpt2.py` and `sentencepiece.py` are the three rules,
each with its kernels; `characters.py` has the tables of the outcome of each character, taken from the reference itself.
`counts.py` counts the words of a column into the arrays of `table.py`.
"""
