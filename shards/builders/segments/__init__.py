"""Examples of two segments, `[CLS] A [SEP] B [SEP]`.

`pairs.py` makes segment pairs for next sentence prediction (`pairs_plain.py` is the definition), with partners from
other documents that `partners.py` draws; `sentence_order.py` takes both segments from one document. `plan.py` writes
out what they plan. Each has its kernels next to it.
"""
