"""Heads over words: `tags.py` scores a tag for each, `crf.py` chains them (`chains.py`), `features.py` learns from
layers of an encoder that stays as it is.
"""
