"""Data for others: an artifact's rows as a folder that other tools open, with a card that describes them.

    artifact ─► its rows, by split  ─► files of bounded size ─┐
       │           export.py              exported.py         ├─► a folder that appears whole
       └─► its ancestors, its run ─► card, Croissant metadata ┘       exported.py
               exported.py               data_card.py, metadata.py

`export.py` has all steps on one page, and `release_folder.py` those of a release: encoder, tokenizer, heads, answers.
`exported.py` collects what the card and the metadata describe: what the artifact was made from, and the run that made
it. `cards/` has the data card and the model card. Rows that a later run deleted are not exported.
"""
