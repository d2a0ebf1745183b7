"""The objectives: by what a model is trained, as settings; no torch.

`contract.py` says what an objective is, a file each holds one, `registry.py` finds them by name. The module that learns
(encoders, heads, losses) is made by a function that its settings name, and lies in `trainer.model`.
"""
