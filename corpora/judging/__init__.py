"""Judging: turn records into documents, or into drops with a reason, by a series of steps.

    source ─► records ─► batches.py: parse ─► clean ─► lines ─► language ─► rules ─► ... ─► documents, drops
                            ▲
    statistics_build.py: what a sample of the source says of all its documents (the stage `fits`)

`documents.py` and `statistics_build.py` describe the two stages. `batches.py` contains the list of the steps, and
applies them to a batch of records (`batch_state.py`); `steps/` has one file for each step. What the steps depend on is
in `settings.py`, `inputs.py` (the files that settings name) and `source_statistics.py`.
"""
