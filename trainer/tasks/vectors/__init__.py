"""Vectors of texts: `embed.py` writes them to a file, part by part; `search.py` compares them.

`search.py` is the command: it embeds, and with queries searches, scores the result and mines rows to train on;
`settings.py` and `job.py` are what is asked.
"""
