"""The terminal: `output.py` is where commands print, `progress.py` shows work under way, `summary.py` what a run came
to, `display.py` artifacts, examples and documents; `completion.py` completes the names of recipes.
"""
