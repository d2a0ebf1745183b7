"""The documentation in a Python installation: docstrings, help topics, packages' descriptions.

`source.py` finds and reads them, `docstrings.py` turns them into prose.
"""
