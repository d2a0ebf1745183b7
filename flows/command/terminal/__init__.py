"""The terminal: `output.py` is where commands print, `tables.py` fits tables to its width, `progress.py` shows work
under way, `summary.py` what a run came to, `display.py` artifacts, examples and documents; `help.py` has the texts of
the help, and `completion.py` completes the names of recipes.
"""
