"""Recipes: one TOML file describes a whole run.

`tables.py` turns the TOML text into tables (overrides applied, paths resolved), and `recipe.py` checks the tables and
turns them into frozen dataclasses. `model_and_tasks.py` reads `[model]` and `[[task]]`; `run_settings.py` and
`privacy.py` have the smaller tables. `lock.py` reads and writes the lock file: the raw files that a recipe stands for.
`meanings.py` reads the meaning of each setting from docstrings. `guessed_fields.py` chooses defaults for a folder of
text. `recipe_templates.py` writes new recipes from `templates/` (kinds of text) and `published/` (published models),
and says what the demo's samples turn into. `shipped/` holds the recipes that come with the program.
`punctuation.py` makes the labels of the demo's task.
"""
