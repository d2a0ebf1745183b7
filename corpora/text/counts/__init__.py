"""What there is to count in a document: words, marks, lines, paragraphs, and what is repeated of them.

`definition.py` says it for one text; `kernels.py` counts a column, with words as `words.py` finds them and repeated
runs of words as `repeats.py` numbers them.
"""
