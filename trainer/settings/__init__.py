"""The settings of a training in a recipe, as values that check themselves: `[model]`, `[training]`. No torch.

`model.py` is the encoder and its objective, `training.py` the training, `phases.py` a phase of it: how its batch grows,
and the course of its learning rate.
"""
