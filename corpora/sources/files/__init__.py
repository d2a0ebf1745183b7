"""Your own files, by their endings: text, JSON lines, tables, Parquet, pages, books and crawl archives.

`source.py` is the page to read first, `endings.py` says which files are read. `formats.py` has each format as a value,
which other kinds use too. `rows.py` cuts tables of text into rows, `parquet.py` reads Parquet; `fields.py` finds a
record's fields under the names that the recipe gives, `guessing.py` finds the text where it gives none. `office.py`
has Word (`word.py`) and PDF (`pdf.py`) as records.
"""
