"""The sources: raw files as they really exist on disk in, records out.

    files ─► raw files (name, sha256) ─► slices, cut at fixed places ─► records (prose, key, locator)
                                                                 └────► drops (reason, detail, damaged)

`contract.py` is what every source keeps to, a dataclass with five methods, what sources share, and which fields of a
record a recipe may name; `registry.py` makes a source from a recipe's table; `passed_over.py` counts the other files
next to raw files. Each kind of source is a folder with a `source.py` to read first, or a single file:

    wiki/           `wikipedia`: MediaWiki dumps, and wikitext to prose
    books/          `bookcorpus`: a book per file, .txt or .epub, and what libraries and shops add to it
    web/            `cc-news`: crawl archives, and the main text of their pages
    openwebtext.py  `openwebtext`: pages from tars inside xz, Parquet and JSON lines
    stories.py      `stories`: stories by line, by blank line or by file
    python_docs.py  `python-docs`: the documentation in a Python installation
    files/          `files`: your own files by their endings
    xml/            `xml`: XML of your own, by a map of fields
    bytes/          what they share: bytes unpacked, cut and counted

A package of someone else may add a kind under the entry point `cloze.sources`: `examples/mbox_source` does.

Two things hold for all. Slices that are read separately give the same records as the whole file. And records are
counted by other means than the parser's if the format has any, so that a record cannot be lost between the two. A file
that is one record has none, nor has `python-docs`: only its parser knows what a record is.
"""
