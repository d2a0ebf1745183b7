"""Files in, the same files without duplicates out: `cloze dedup`, without a recipe and a store.

    files ──read──► sketches ──judge──► which rows stay ──read again──► kept rows, removed rows with the reason

`run.py` has all steps on one page. `inputs.py` cuts files into pieces and reads their rows, JSON lines with the kernel
of the sources (`corpora.sources.files.json_lines`). `sketches.py` computes the hashes of a piece's rows. `judge.py`
decides with the duplicate search of `corpora.duplicates`, and measures its recall on edited copies of the texts.
`output.py` writes rows with their original columns. Texts are not cleaned, and their language does not matter.

Memory: about 150 bytes per row. On disk, next to the output and in files without a name: 176 bytes per row; 8 for each
shingle (run of words) of rows that share a band with another; and, with one worker, up to 4 GB for the shingles of all
rows, which are computed again otherwise (`ShingleCache` in `sketches.py`).
"""
