"""Samples that come with the program, every sentence of them written for it: raw inputs in their real formats.

What is packed holds the files next to it, as a test checks.
"""
