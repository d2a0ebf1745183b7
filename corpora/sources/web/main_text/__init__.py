"""The main text of a page, from its table.

`marks.py` gives what the markup around a text says of it, `features.py` a row of numbers for each block, `forest.py`
the trees that were grown on marked pages, `blocks.py` the choice of blocks. `mark_kernels.py` and `text_kernels.py` are
the compiled parts of the first two.
"""
