"""Vectors of texts: `embed.py` computes them and writes them to a file, and `search.py` compares them.

`search.py` is the command. It embeds texts and, if there are queries, searches, scores the result and mines training
rows. `settings.py` and `job.py` hold its settings.
"""
