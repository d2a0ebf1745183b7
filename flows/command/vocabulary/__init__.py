"""`cloze vocabulary`: show one, compare two, fit one to a domain.

`cli.py` reads arguments. `named.py` finds a vocabulary by the name that people give it, `figures.py` describes it.
`adapt.py` is the command that fits one: `domain_counts.py` counts the domain's words, `adaptation.py` measures, adds
tokens and measures again. `display.py` makes tables of all these figures.
"""
