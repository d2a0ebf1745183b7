"""Commands for those who operate runs.

`cli.py` has the commands, `display.py` shows `runs` and `status`, `gc.py` finds and removes what nobody needs.
"""
