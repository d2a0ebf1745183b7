"""`grid.py` runs a recipe in several forms, `grid_flow.py` as one flow with a run below it for each."""
