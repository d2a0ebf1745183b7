"""The training objectives, as settings; no torch.

`contract.py` defines an objective, one file holds each, `registry.py` finds them by name. The module that learns
(encoders, heads, losses) is made by a function that its settings name, and lies in `trainer.model`.
"""
