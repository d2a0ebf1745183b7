"""Texts as token ids, at the speed of memory: from bytes to ids without an object for a word.

`encoder.py` chooses the engine: `wordpiece.py`, `byte_bpe.py` or `unigram.py`, each with its kernels, or the library
tokenizers itself, which defines the ids of all others. It also hides special tokens, so that a text that spells one is
only text. `encoded.py` is what every engine returns. Engines share a cache of short words (`piece_cache.py`) and a trie
of pieces (`trie.py`).
"""
