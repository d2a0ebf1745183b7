"""Training without a flow around it.

`cli.py` has the command, `train.py` runs a job on this machine, `checkpoints.py` exports a checkpoint as a folder,
`gpu_findings.py` says what would make a recipe's training slow on the GPUs of this machine,
`model_findings.py` what makes that of a Hugging Face model slow or wrong, whose folder `model_folder.py` reads.
"""
