"""A vocabulary: a tokenizer.json and the files with it, as a folder that other tools open.

`vocabulary.py` is the type. `bert.py`, `roberta.py` and `albert.py` make the tokenizers of the three families;
`files.py` reads what others wrote and compares the files with each other, within the bounds of `bounds.py`;
`scores.py` writes scores so that every parser reads them alike; `pipelines.py` says which of a tokenizer's rules the
engines know; `settings.py` has what a recipe says of a vocabulary.
"""
