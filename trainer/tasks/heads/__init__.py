"""What tasks add to an encoder: `task_model.py` has what all of them share, the others a head each.

`tagging/` has the heads over words.
"""
