"""The main text of a page, from its table.

`features.py` gives a row of numbers for each block, of its text and of the markup around it; `blocks.py` chooses the
blocks by the trees that were grown on marked pages. `mark_kernels.py` is the compiled part of the first.
"""
