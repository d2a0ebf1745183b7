"""A vocabulary: a tokenizer.json and the files with it, as a folder that other tools open.

`vocabulary.py` is the type, and knows which of a tokenizer's rules the engines have. `bert.py`, `roberta.py` and
`albert.py` make the tokenizers of the three families, the last with scores that every parser reads alike; `files.py`
reads what others wrote, within bounds, and compares the files with each other; `settings.py` has what a recipe says of
a vocabulary.
"""
