"""Documents cut into examples, a file for each kind of input.

`pairs.py` makes segment pairs for next sentence prediction, `packing.py` fills examples of one segment with whole
sentences; each has its kernels, and `pairs_plain.py` is the definition of pairs over lists of tokens. `examples.py` is
what every builder gives, `contract.py` what an input is.
"""
