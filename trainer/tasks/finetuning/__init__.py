"""One fine-tuning, through the loop that pre-training uses as well.

`finetune.py` is the page: files and a model in, a folder out. `restarts.py` cuts steps and keeps scores, `record.py`
writes the folder and knows what a run resumes with, and `teacher.py` asks a larger model once.
"""
