"""The families: what makes an encoder BERT, RoBERTa or another, as facts; no torch.

`contract.py` defines families and the shapes of encoders, one file holds the row of each family, `registry.py` finds
them by name.
"""
