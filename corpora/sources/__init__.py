"""The sources: raw files as they really exist on disk in, records out.

    files ─► raw files (name, sha256) ─► slices, cut at fixed places ─► records (prose, key, locator)
                                                                 └────► drops (reason, detail, damaged)

`source.py` is the contract, a dataclass with five methods; `registry.py` makes a source from a recipe's
table. A source knows one format:

- `wikipedia.py` reads MediaWiki dumps: `bz2_streams.py` decompresses, `mediawiki_xml.py` cuts pages out of
  the bytes and takes each apart, `wikitext.py` turns its text into prose;
- `bookcorpus.py` reads a book per file, `.txt` or `.epub` (`epub.py`), and cuts what a library or a shop put around
  it (`gutenberg.py`, `book_matter.py`);
- `cc_news.py` reads crawl archives (`warc.py`) and the main text of their pages (`html.py`);
- `openwebtext.py` reads pages from tars inside xz (`archives.py` streams both), Parquet and JSON lines;
- `stories.py` reads stories by line, by blank line or by file;
- `python_docs.py` reads the documentation in a Python installation, `docstrings.py` turns it into prose;
- `files.py` reads text files and JSON lines of your own.

Two things hold for all. A slice read alone and joined with its neighbours gives the same records. And what
comes in is counted before it is parsed, so that a record cannot be lost between the two.
"""
