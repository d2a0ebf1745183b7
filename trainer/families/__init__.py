"""The families: what makes an encoder BERT, RoBERTa or another, as facts; no torch.

`contract.py` defines families and the shapes of encoders, and one file holds the row of each family;
`trainer.settings.model` finds them by name.
"""
