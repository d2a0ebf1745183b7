"""Recipes: one TOML file is a whole run.

`recipe.py` checks it into frozen dataclasses, from what `tables.py` makes of the TOML (`model_table.py` of `[model]`);
`lock.py` is what it was resolved to, `privacy.py` which texts a person may see. `shipped/` holds the recipes that come
with the program (`demo_contents.py` says what the demo's samples turn into), `templates/` those to begin with and
`published/` those of published models, which `new_recipe.py` writes.
"""
