"""The settings of a training run in a recipe, as dataclasses that check themselves: `[model]`, `[training]`. No torch.

`model.py` has the encoder and its objective, `training.py` the training run, and `phases.py` its phases, with growing
batches and learning-rate schedules.
"""
