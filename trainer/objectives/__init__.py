"""The settings of training objectives; no torch.

`contract.py` defines what an objective is. Each objective has a file, and `trainer.settings.model` finds it by name.
The settings name the class of the module to train (encoders, heads, losses), which is in `trainer.model`.
"""
