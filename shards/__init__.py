"""Shards: documents and a vocabulary in, training examples on disk out, and the reading of them.

    tokenised documents ─► those of a shard ─► pairs or packs ─► masks ─► shard files ─► order ─► batches
         tokens.py           documents.py        builders/       masks/    build.py          reading/

A shard holds a uniform sample of its corpus, so whatever one example needs of other documents (a random next
sentence) is drawn inside the shard. `builders/` cuts documents into examples, a file for each input, and `inputs.py`
knows them by name; `masks/` chooses what the model must guess. All are pure functions of columns: token ids, word
starts and offsets go in as flat arrays, examples come out as flat arrays, and no token is a Python object on the way.

Every choice is addressed (`corpora.store.randomness`): it follows from the seed, the purpose, the epoch or
copy and the example's own id. So shards may be built, masked and read in any order, by any number of workers,
and give the same bytes; and a mask drawn when an example is read equals the one that would have been stored.

Nothing is lost unseen: of each copy's tokens the ledger says how many were placed, truncated and left over.
"""
