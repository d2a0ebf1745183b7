"""Files in, the same files without duplicates out: `cloze dedup`, with no recipe and no store.

    files ──read──► sketches ──judge──► who stays ──read again──► kept rows, removed rows and why

`run.py` is the whole on one page. `inputs.py` cuts files into pieces and reads their rows, those of JSON lines by the
kernel of the sources (`corpora.sources.files.json_lines`). `sketches.py` sketches a piece, `judge.py` decides by the
engine of `corpora.duplicates`, and measures the recall on edited copies of the very texts. `output.py` writes, with all
columns as they came. Nothing is cleaned, and no language is looked at.

Memory: some 150 bytes a row. On disk, next to the output and in files without a name: 176 bytes a row, and 8 for each
shingle of rows that share a band with another, and with one worker for up to 4 GB of all rows', which else are made
again (`HeldShingles` in `sketches.py`).
"""
