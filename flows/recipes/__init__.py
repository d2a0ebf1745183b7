"""Recipes: one TOML file is a whole run.

`recipe.py` checks it into frozen dataclasses, from what `tables.py` makes of the TOML (`model_table.py` of `[model]`,
`task_table.py` of `[[task]]`,
`settings/` has the smaller tables); `lock.py` is what it was resolved to. `meanings.py` tells
what each setting means. `shipped/` holds the recipes that come with the program (`demo_contents.py` says
what the demo's samples turn into), `templates/` those to begin with and `published/` those of published models, which
`new_recipe.py` writes; `guesses/` fits defaults to a folder of text.
"""
