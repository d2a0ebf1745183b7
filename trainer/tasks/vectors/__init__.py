"""Vectors of texts: `embed.py` writes them to a file, part by part (`parts.py`); `search.py` compares them.

`retrieve.py` searches a collection, scores the result and mines rows to train on; `settings.py` is what each is asked.
"""
