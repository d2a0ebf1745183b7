"""The smaller tables of a recipe, checked: `bounds.py`, `engine.py`, `notify.py`, `privacy.py`, and `release.py`, which
also has how long runs are kept."""
