"""Data for others: an artifact's live rows as a folder that other tools open, with a card that says what they are.

    artifact ─► live rows, by split ─► files of bounded size ─┐
       │           rows.py                files.py            ├─► a folder that appears whole
       └─► its chain of artifacts, its run ─► card, Croissant ┘       folder.py
               provenance.py, counts.py       card.py, croissant.py

`export.py` is the page. `provenance.py` finds what an artifact was made from and the run that made it, `counts.py`
counts the live documents behind it, `exported.py` is what card and metadata tell of, `markdown.py` writes texts that
act on nothing, and `licenses.py` knows how licences are spelled elsewhere. `lineage.py` tells a run as OpenLineage
events, and `model_card.py` a model with what a suite came to. Both cards are templates, of which `sections.jinja` has
the parts that they share.
"""
