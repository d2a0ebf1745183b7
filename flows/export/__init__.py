"""Data for others: an artifact's live rows as a folder that other tools open, with a card that describes them.

    artifact ─► live rows, by split ─► files of bounded size ─┐
       │           export.py              exported.py         ├─► a folder that appears whole
       └─► its chain of artifacts, its run ─► card, Croissant ┘       exported.py
               exported.py                    data_card.py, metadata.py

`export.py` is the page, and `release_folder.py` that of a release: encoder, tokenizer, heads and answers. `exported.py`
is what card and metadata describe, with what an artifact was made from and the run that made it. `cards/` has the data
card and the model card.
"""
