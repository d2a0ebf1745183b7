"""Items of token ids, cut and batched.

`windows.py` cuts long texts into windows, `sentences.py` reads sentences within their document, `batching.py` makes
batches of items.
"""
