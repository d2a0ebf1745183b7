"""The kinds of task: what they read from a record, how it becomes tokens, and how predictions are scored.

`trainer.tasks.heads` has the models of these tasks, in files with the same names.

    texts.py        classes and numbers for whole texts
    tags.py         tags for words, and tagging schemes for spans
    answers.py      spans that answer a question
    choices.py      one of several texts
    vectors.py      similarity and retrieval: a vector for each text
    next_word.py    the next word
"""
