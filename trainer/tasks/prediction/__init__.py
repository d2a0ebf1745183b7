"""Uses of a trained model: `predict.py` for the records of a file, and `fill.py` for the [MASK]s of a text."""
