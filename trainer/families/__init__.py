"""The families: what makes an encoder BERT, RoBERTa or another, as facts; no torch.

`contract.py` says what a family and the shape of an encoder are, a file each holds the row of one family, `registry.py`
finds them by name.
"""
