"""The heads that tasks add to an encoder. A head has the file name of its task in `kinds/`, as its scores in `scores/`.

`task_model.py` has what all heads share, `groups.py` the softmax of `answers.py` and `choices.py`; `tag_chains.py` has
the tags of a sentence chosen together, a part of `tags.py`.
"""
