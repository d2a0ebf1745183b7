"""A page's elements and text.

`elements.py` has the names and characters that mean something and what a page is read to, `plain.py` reads it in plain
Python, and `kernels.py` has the compiled code of `corpora.sources.web.tree`, which gives the same.
"""
