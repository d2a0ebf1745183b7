"""Measures of a vocabulary: how it cuts the words of a corpus, in whole numbers.

`build.py` is the page of the stage `measures`, for every size from one training. `measure.py` counts the tokens of
words, `texts.py` cuts one text by several vocabularies.
"""
