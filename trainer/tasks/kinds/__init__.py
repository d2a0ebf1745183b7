"""The kinds of task: what is read of a record, how it becomes tokens, and how answers are judged.

A subject has one file name in three rooms: `kinds/tags.py` is the task, `heads/tags.py` what it adds to an encoder, and
`scores/tags.py` how good its answers are.

    texts.py        classes and numbers for whole texts
    tags.py         tags for words; tag_schemes.py: the schemes of tags of spans
    answers.py      spans that answer a question
    choices.py      one text of several; its only score, the share that is right, needs no file
    vectors.py      similarity and retrieval: a vector for each text
    next_word.py    the next word
"""
