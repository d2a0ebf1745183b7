"""Samples that come with the program, every sentence of them written for it: raw inputs in their real formats.

What is packed was made of the files next to it, by the scripts in tests/corpora/samples: the same bytes every time.
"""
