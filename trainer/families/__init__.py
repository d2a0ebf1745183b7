"""Model families (BERT, RoBERTa, ...), described by tables of facts; no torch.

`contract.py` defines families and the shapes of encoders. Each family has a file with its table row, and
`trainer.settings.model` finds it by name.
"""
