"""Training without a flow around it.

`cli.py` has the command, `train.py` runs a job on this machine, `checkpoints.py` exports a checkpoint as a folder,
and `gpu_findings.py` says what would make a recipe's training slow on the GPUs of this machine.
"""
