"""What is guessed where a recipe does not say it, and then kept in its lock.

`fields.py` finds the column of the text, `template_hint.py` the template that fits some texts, `fitted_defaults.py` is
what the defaults of a folder were fitted to.
"""
