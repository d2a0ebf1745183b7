"""The trained model in a report: `trained.py` has its figures and curves, `terms.py` words the terms of its loss."""
