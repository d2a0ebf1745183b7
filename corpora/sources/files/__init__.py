"""Your own files, by their endings: text, JSON, tables, Parquet, pages, books, mail, office files and crawl archives.

`source.py` is the page to read first, `endings.py` says which files are read. `formats.py` has each format as a value,
which other kinds use too; `tables.py` those of tables, which `rows.py` cuts into rows, and `json_file.py` JSON, which
`json_values.py` cuts into values. `parquet.py` reads Parquet. `fields.py` finds a record's fields under the names that
the recipe gives, `guessing.py` finds the text where it gives none. `office/` has Word, PowerPoint, Excel and PDF,
`mail/` messages and mailboxes.
"""
