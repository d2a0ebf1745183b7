"""Commands for who keeps it running: `runs` what ran, `status` what runs now, `gc` what nobody needs any more.

`cli.py` has the commands, `display.py` what `runs` and `status` show, `collecting.py` what `gc` does and shows.
"""
