"""Recipes: one TOML file is a whole run.

`recipe.py` checks it into frozen dataclasses, from what `tables.py` makes of the TOML (`model_and_tasks.py` of
`[model]` and `[[task]]`; `run_settings.py` and `privacy.py` have the smaller tables); `lock.py` is what it was resolved
to. `meanings.py` tells what each setting means. `shipped/` holds the recipes that come with the program, `templates/`
those to begin with and `published/` those of published models, which `recipe_templates.py` writes; it also says what
the demo's samples turn into. `guessed_fields.py` fits defaults to a folder of text.
"""
