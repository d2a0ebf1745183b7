"""The heads that tasks add to an encoder. A head is in the file with the name of its task in `trainer.tasks.kinds`,
except that `texts.py` also has the heads of answers and choices.

`task_model.py` has the base class of all models, and a softmax over groups. `tags.py` also has the CRF that chooses the
tags of a sentence jointly.
"""
