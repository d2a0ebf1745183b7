"""The sources: raw files as they really exist on disk in, records out.

    files ─► raw files (name, sha256) ─► slices, cut at fixed places ─► records (prose, key, locator)
                                                                 └────► drops (reason, detail, damaged)

`source.py` is the contract, a dataclass with five methods; `registry.py` makes a source from a recipe's
table. A source knows one format:

- `wikipedia.py` reads MediaWiki dumps: `bz2_streams.py` decompresses and finds streams, `stream_index.py` reads a
  dump's index, `mediawiki_xml.py` cuts pages out of the bytes and takes each apart, `wikitext.py` turns its text into
  prose, step by step in the files named after it;
- `bookcorpus.py` reads a book per file, `.txt` (`book_encoding.py`, `book_lines.py`) or `.epub` (`epub.py`), and cuts
  what a library or a shop put around it (`gutenberg.py`, `book_matter.py`, `book_contents.py`, `book_catalogue.py`,
  `book_notes.py`); `book_title.py` finds its title;
- `cc_news.py` reads crawl archives (`warc.py`, `warc_members.py`, `warc_http.py`) and the main text of their pages:
  `html.py`, over `html_charset.py`, `html_tree.py`, `html_marks.py`, `html_blocks.py` and `html_facts.py`;
- `openwebtext.py` reads pages from tars inside xz (`archives.py` streams both), Parquet and JSON lines;
- `stories.py` reads stories by line, by blank line or by file;
- `python_docs.py` reads the documentation in a Python installation, `docstrings.py` turns it into prose;
- `files.py` reads your own files by their endings: texts and lines (`files_bytes.py`), tables (`files_rows.py`),
  Parquet (`files_parquet.py`), pages, books and archives; `files_fields.py` finds a record's fields;
- `xml_files.py` reads XML of your own by a map of fields: `xml_cut.py` cuts records out of the bytes, `xml_fields.py`
  follows the paths, `xml_presets.py` knows PubMed, JATS and patents.

A package of someone else may add a kind under the entry point `cloze.sources`: `examples/mbox_source` does.

Two things hold for all. A slice read alone and joined with its neighbours gives the same records. And what
comes in is counted before it is parsed, so that a record cannot be lost between the two.
"""
