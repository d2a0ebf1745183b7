"""Fine-tuning, with the same training loop as pre-training.

`finetune.py` is the entry point: files and a model in, a folder out. `restarts.py` forms the micro-batches of a step
and keeps scores, `record.py` writes the folder and checks what a run can resume from, and `teacher.py` adds the
predictions of a larger model.
"""
