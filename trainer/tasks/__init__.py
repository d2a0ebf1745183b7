"""What a model is for. Fine-tuning: an encoder and a table of labelled texts in, a classifier out.

    table ─► rows ─► ids ─► batches ─► encoder + head ─► scores after every epoch ─► a folder
    readers          encoding (above)   classification    scores                    finetune tells it in order

A label may be a number as well, which is then learnt as one. `settings` says what such a run is asked to do, without
torch: that is all `flows` knows of it. A row that cannot be used is counted with its reason, and above a bound the run
is refused; a text longer than the model reads is cut, and the tokens cut off are counted too. `fill` guesses the words
under [MASK], without any learning. `formats` reads labelled data of every kind, without torch as well.
"""
