"""One fine-tuning, through the loop that pre-training uses as well.

`finetune.py` is the page: files and a model in, a folder out. `course.py` is what `trainer.training.loop` asks of it,
`teacher.py` asks a larger model once, and `vector_files.py` writes what sentence-transformers reads.
"""
