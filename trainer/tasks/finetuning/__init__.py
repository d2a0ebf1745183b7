"""One fine-tuning, through the loop that pre-training uses as well.

`finetune.py` is the page: files and a model in, a folder out. `course.py` is what `trainer.training.loop` asks of it,
and `teacher.py` asks a larger model once.
"""
