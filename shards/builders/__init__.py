"""Documents cut into examples, a file for each kind of input.

`pairs.py` makes segment pairs for next sentence prediction, of text of other documents that `partners.py` finds;
`sentence_order.py` takes both segments from one document; `segments.py` writes out what they plan. `sentence_pair.py`
makes pairs of single sentences, `electra.py` two segments without a label, `packing.py` examples of one segment that
whole sentences fill, `single.py` one document an example, `causal.py` a stream for next-word prediction: these plan an
example as pieces of documents, which `pieces.py` writes out. Each has its kernels, and a plain definition over lists of
tokens or places. `contract.py` defines an input, `examples.py` what every builder gives. `google_bert.py` makes the
examples of BERT's authors as their script does, with Python's own random numbers (`python_random.py`);
`google_bert_plain.py` is its definition.
"""
