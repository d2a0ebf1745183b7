"""The settings of a training in a recipe, as values that check themselves: `[model]`, `[training]`. No torch.

`model.py` is the encoder and its objective, `training.py` the training, in phases (`phases.py`); `schedules.py` is the
course of the learning rate, `rates.py` its value at a step, `ramps.py` the growth of a batch.
"""
