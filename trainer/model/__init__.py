"""The model: ids of many sequences end to end in, one vector for every token out, heads on the tokens they need.

`families.py` says what makes an encoder BERT or RoBERTa and builds the model that is pre-trained; `encoder.py`,
`attention.py`, `rotary.py` and `heads.py` are its parts; `batches.py` is what it takes.
"""
