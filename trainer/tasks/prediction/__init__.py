"""Prediction with a trained model: `predict.py` for the records of a file (`answer_lines.py` writes them), `fill.py`
for the [MASK]s of a text, and `generate.py` for the words after it.
"""
