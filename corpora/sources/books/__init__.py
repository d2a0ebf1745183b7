"""Books, one to a file: the text that the author wrote, without what a library or a shop put around it.

    .txt ─► encoding ─► lines ─┐
    .epub ─► epub ─────────────┴─► gutenberg, matter, contents, catalogue, notes ─► title ─► a record

`source.py` is the page to read first.
"""
