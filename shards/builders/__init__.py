"""Documents cut into examples, a file for each kind of input.

`pairs.py` makes segment pairs for next sentence prediction, `packing.py` fills examples of one segment with whole
sentences; each has its kernels, and `pairs_plain.py` is the definition of pairs over lists of tokens. `examples.py` is
what every builder gives, `contract.py` what an input is. `google_bert.py` makes the examples of BERT's authors as their
script does, with Python's own random numbers (`python_random.py`); `google_bert_plain.py` is its definition.
"""
