"""Items of token ids: cut, packed and batched.

`windows.py` cuts long texts into windows, `sentences.py` reads sentences within their document, `packing.py` keeps
items in little memory, `batching.py` makes batches of them.
"""
