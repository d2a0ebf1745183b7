"""Reads labeled data in the formats in which they are published, as records with values by role. No torch.

    file ─► lines, decompressed ─► reader of a format ─► checks of each record ─► (line, example)
            records.py             tables.py, ...        reading.py └─ unusable: counted by reason, with the first line

A role is the meaning of a value for a task: `text`, `second` and `label`; `words` and `tags`; `question`, `context` and
`answers`; `choices`. `records.py` has the settings of a file, reads its text and lines, counts its records, and
converts their values to texts, labels and numbers. `reading.py` reads a file in any format. The reader of a format is a
function that yields a file's records: `tables.py` (`.tsv`, `.csv`, `.jsonl`, `.json`, `.txt`, `.parquet`, `.xlsx`);
`tag_layouts.py` (words with tags in columns, and mentions in abstracts); `question_layouts.py` (questions whose answers
are spans, questions with choices such as COPA, RACE and SWAG, and SuperGLUE's other formats); `retrieval.py`
(documents, queries and judgments of BEIR and MS MARCO). `published.py` describes published data sets by name (GLUE,
SuperGLUE, SQuAD, RACE, CoNLL-2003 and others): their files, columns, labels and metrics.
"""
