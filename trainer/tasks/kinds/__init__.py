"""The kinds of task, a file each: what is read of a record, how it becomes tokens, and how answers are judged.

`texts.py` has classes and numbers for whole texts, `tags.py` tags for words, `answers.py` spans that answer a question,
`choices.py` one text of several, `summary.py` extracts, `similarity.py` and `retrieval.py` vectors (`vectors.py` is
what they share), `next_word.py` the next word. `naming.py` has names for messages and metrics, `tag_schemes.py` the
schemes of tags of spans.
"""
