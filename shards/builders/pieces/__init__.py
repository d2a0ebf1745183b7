"""Examples made of pieces of documents, planned by a kernel and written by `plan.py`.

`packing.py` fills an example with whole sentences, `single.py` makes one of each document, `electra.py` two segments
without a label, `sentence_pair.py` pairs of single sentences. Each has its kernels next to it; `plan_kernels.py` cuts
texts and writes examples.
"""
