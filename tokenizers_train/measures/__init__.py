"""Measures of a vocabulary: what it makes of the words of a corpus, in whole numbers.

`build.py` is the page of the stage `measures`, for every size from one training. `measure.py` counts what a vocabulary
makes of words, `texts.py` cuts one text by several vocabularies.
"""
