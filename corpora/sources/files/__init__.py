"""Your own files, by their endings: text, JSON, tables, Parquet, pages, books, mail, office files and crawl archives.

`source.py` is the page to read first, `endings.py` says which files are read. `formats.py` has each format as a value,
which other kinds use too; `tables.py` those of tables, `json_file.py` a whole file of JSON. `parquet.py` reads Parquet.
`fields.py` finds a record's fields under the names that the recipe gives, `guessing.py` finds the text if it gives
none. `office/` has Word, PowerPoint, Excel and PDF, `mail.py` messages and mailboxes.
"""
