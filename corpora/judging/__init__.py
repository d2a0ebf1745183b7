"""Judging: records through all steps, to a document or to a drop with its reason.

    source ─► records ─► batches.py: parse ─► clean ─► lines ─► language ─► rules ─► ... ─► documents, drops
                            ▲
    statistics_build.py: what a sample of the source says of all its documents (the stage `fits`)

`documents.py` and `statistics_build.py` are the pages of the two stages. `batches.py` has the list of the steps and
takes a batch of records (`batch_state.py`) through them; `steps/` has one file for each. What they are judged by is in
`settings.py`, `inputs.py` (the files that settings name) and `source_statistics.py`.
"""
