"""Shards: documents and a vocabulary in, training examples on disk out, and the reading of them.

    1. `tokens.py` encodes the corpus once: documents as ids by sentence, in the order of a shuffle hash.
    2. `documents.py` takes those of one shard, a uniform sample of the corpus: `ShardDocuments` (of a large generation
       from few parts, into which `tokens.py` merged the many).
    3. `builders/` cuts them into pairs or packs: `Examples`, a file for each input (`inputs.py` knows them by name).
    4. `masks/` chooses what the model must guess (`Masks`), and `build.py` writes the shard with its ledger.
    5. `reading/` opens a finished set and gathers the examples of a step, in order and masked: `GatheredExamples`.

Whatever one example needs of other documents (a random next sentence) is drawn inside its shard. All steps are pure
functions of columns: token ids, word starts and offsets go in as flat arrays, examples come out as flat arrays, and no
token is a Python object on the way.

Every choice is addressed (`corpora.store.randomness`): it follows from the seed, the purpose, the epoch or
copy and the example's own id. So shards may be built, masked and read in any order, by any number of workers,
and give the same bytes; and a mask drawn when an example is read equals the one that would have been stored.

Nothing is lost unseen: of each copy's tokens the ledger says how many were placed, truncated and left over.
"""
