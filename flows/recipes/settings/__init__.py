"""The smaller tables of a recipe, checked: `bounds.py`, `engine.py`, `notify.py`, `privacy.py`,
`release.py`, `retention.py`."""
