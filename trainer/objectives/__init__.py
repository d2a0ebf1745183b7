"""The training objectives, as settings; no torch.

`contract.py` defines an objective, one file holds each; `trainer.settings.model` finds them by name. The module that
learns (encoders, heads, losses) is made by a function that its settings name, and lies in `trainer.model`.
"""
