"""The boundaries of sentences.

`splitter.py` holds the definition over `str` and the function for a column. `languages.py` is what it goes by: words,
marks and lengths. `words.py` reads the words around a full stop from bytes, `kernels.py` is the splitter over bytes.
"""
