"""The heads that tasks add to an encoder: `task_model.py` has what all share, the other files a head each.

`tagging/` has the heads over words.
"""
