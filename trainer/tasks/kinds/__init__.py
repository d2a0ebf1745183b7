"""The kinds of task: what is read of a record, how it becomes tokens, and how answers are judged.

`trainer.tasks.heads` has what each adds to an encoder, under the same name.

    texts.py        classes and numbers for whole texts
    tags.py         tags for words, and the schemes of tags of spans
    answers.py      spans that answer a question
    choices.py      one text of several; its only score, the share that is right, needs no file
    vectors.py      similarity and retrieval: a vector for each text
    next_word.py    the next word
"""
