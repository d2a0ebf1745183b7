"""What a word is, and how often each occurs.

`rule.py` says what the rules of words have in common. `bert.py`, `gpt2.py` and `sentencepiece.py` are the three rules,
each with its kernels; `characters.py` has the tables of what becomes of each character, asked of the reference itself.
`counts.py` counts the words of a column into the arrays of `table.py`.
"""
