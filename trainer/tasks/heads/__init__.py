"""The heads that tasks add to an encoder. A head has the file name of its task in `trainer.tasks.kinds`, but those
of answers and choices are in `texts.py`.

`task_model.py` has what all heads share, and the softmax over groups; `tags.py` also chooses the tags of a sentence
together.
"""
