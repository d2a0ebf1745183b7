"""Near-duplicates: which documents are kept, and which document each removed one duplicates.

    text ──shingles──► sets of hashes ──signatures──► 128 minima ──bands──► 18 keys a document
                              │                                               │
                              └───────────────verify───────► survivors ◄──────┘

`shingles` turns a text into the set of its word 5-grams, each a 64-bit hash; words are only letters, marks and numbers,
folded (`corpora.text.words`), so quotation marks, capitals and forms of Unicode hide no copy. `signatures` sums a set
up in 128 minima, such that two signatures agree in about the share of places that the two sets have in common (their
Jaccard similarity). It also cuts a signature into 18 keys of 7 minima, the bands: documents that share a key are worth
a closer look, and a pair as similar as the threshold, 0.8, shares one with probability .986. `verify` takes that closer
look: it counts the shingles in common, exactly, so nothing is ever removed on an estimate. `survivors` is the rule,
`sweep` applies it to many documents at once. Documents have one total order, and a document is removed if and only if
one that is *kept*, before it in the order, shares a band with it and is its verified near-duplicate. Removed documents
have no influence: a chain of small changes keeps both its ends, every removal names its survivor, and what comes later
in the order changes nothing before it.

One engine serves the stages of a store (`build`, with the columns of `candidates`, `revisions` and `verdicts`), files
(`cloze dedup`) and labelled rows: each brings keys by band, an order and a way to read shingle sets, which
`shingle_file` keeps. Long columns are in scratch files, so memory is about 130 bytes a document.
"""
