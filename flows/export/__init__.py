"""Data for others: an artifact's live rows as a folder that other tools open, with a card that says what they are.

    artifact ─► live rows, by split ─► files of bounded size ─┐
       │           rows.py                files.py            ├─► a folder that appears whole
       └─► its chain of artifacts, its run ─► card, Croissant ┘       folder.py
               provenance.py, counts.py       card.py, croissant.py

`export.py` is the page. `provenance.py` finds what an artifact was made from and the run that made it, `counts.py`
counts the live documents behind it, `sections.py` and `examples.py` have parts of the card, `markdown.py` writes texts
that act on nothing, `licenses.py` knows how licences are spelled elsewhere. `exported.py` is what card and metadata
tell of. `lineage.py` tells a run as OpenLineage events, and `model_card.py` a model with what a suite came to.
"""
