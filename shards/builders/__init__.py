"""Documents cut into examples, a file for each kind of input.

`pairs.py` makes segment pairs for next sentence prediction, `sentence_pair.py` pairs of single sentences; `electra.py`
two segments without a label, `packing.py` examples of one segment that whole sentences fill, `single.py` one document
an example, `causal.py` a stream for next-word prediction. Each has its kernels, and a plain definition over lists of
tokens. `contract.py` is what an input is, `examples.py` what every builder gives. Most plan an example as pieces of
documents, which `pieces.py` writes out. `google_bert.py` makes the examples of BERT's authors as their script does,
with Python's own random numbers (`python_random.py`); `google_bert_plain.py` is its definition.
"""
