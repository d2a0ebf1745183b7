"""Guesses what a recipe does not say; the lock keeps it.

`fields.py` finds the column of the text, `template_hint.py` the template that fits some texts, `fitted_defaults.py` is
what the defaults of a folder were fitted to.
"""
