"""Texts as token ids, at the speed of memory: from bytes to ids without an object for a word.

`encoder.py` chooses the engine: `wordpiece.py`, `byte_bpe.py`, `unigram.py`, each with its kernels, or the library
tokenizers itself, which is the definition of all others. It also says what part of a vocabulary a document is encoded
by: no special token. `encoded.py` is what every engine gives. Engines share a cache of short words
(`piece_cache.py`) and a trie of pieces (`trie.py`).
"""
