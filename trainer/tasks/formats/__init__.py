"""Labeled data in the formats in which they are published, as records of roles. Without torch.

    file ─► its lines, unpacked ─► a format's reader ─► reading: what a record lacks ─► (line, example)
            records                tables, ...           └─ counted with its reason and its first line

A role is what a value is for a task: `text`, `second` and `label`; `words` and `tags`; `question`, `context` and
`answers`; `choices`. `records.py` holds the settings of a file, gives its text and its lines, counts what became of its
records, and makes texts, labels and numbers of their values; `reading.py` is the page that all formats go through. A
format is a function from a file to its records: `tables.py` (`.tsv`, `.csv`, `.jsonl`, `.json`, `.txt`, `.parquet`,
`.xlsx`); `tag_layouts.py`, words with tags in columns and mentions in abstracts; `question_layouts.py`, questions with
spans as answers, one answer of several (COPA, RACE, SWAG) and SuperGLUE's other forms; `retrieval.py`, documents,
queries and judgements of BEIR and MS MARCO. `published.py` knows published sets by name (GLUE, SuperGLUE,
SQuAD, RACE, CoNLL-2003 and others): their files, columns, labels and metrics.
"""
