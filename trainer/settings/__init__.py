"""What a recipe asks of a training, as values that check themselves: `[model]`, `[training]`, schedules. No torch.

`model.py` is the encoder and by what it is trained, `training.py` how, in phases (`phases.py`); `schedules.py` says how
the learning rate goes, `rates.py` what it is at a step, `ramps.py` how a batch grows.
"""
