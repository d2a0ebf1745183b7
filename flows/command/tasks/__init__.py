"""Commands for tasks: `cloze check`, `finetune`, `predict`, `evaluate`, `embed`, `search`, `fill`.

`cli.py` reads arguments (`options.py` has the longer lists of them) and calls the module of the command, which writes a
job, has the trainer do it in a process of its own, and reports what it says.
"""
