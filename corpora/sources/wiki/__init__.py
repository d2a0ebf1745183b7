"""MediaWiki dumps: pages cut out of the bytes, each parsed by itself, its wikitext turned into prose.

dump ─► source.py ─► pages.py ─► wikitext/prose.py ─► a record

`pages.py` also reads the index that says which pages are in which bzip2 stream.
"""
