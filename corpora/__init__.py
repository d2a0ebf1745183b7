"""Raw dumps in, clean deduplicated documents out. The lowest storey: it knows no other package of the house.

    acquire/ ─► raw files ─► documents ─► signatures ─► verdicts ─► corpus
    (fetched)   sources/     judging.py   duplicates/              build.py
                     └─► fits ─┘

The pages of the stages: `fits.py` (what is learnt from a sample of a source; `fitted.py` reads it), `documents.py`,
`duplicates/build.py`, `build.py`. `judging.py` takes a batch of records through all steps, in this order:

    clean             repaired and normalised (ftfy, Unicode, white space)
    lines             lines taken out: C4's rules, and lines that many documents share
    language          CLD2
    rules             Gopher, C4, FineWeb: which documents are dropped for what they look like
    privacy           personal data masked
    contamination     what holds a piece of an evaluation set
    stories_score     what is near to a set of questions
    steps             the contract of steps from other packages

`sentences.py` cuts the documents for all later packages; `schema.py` has their columns; `tombstones.py` keeps what was
forgotten forgotten; `errors.py` is what a user can mend; `kernels.py` compiles.
`store/` is the floor under all packages: manifests, parts, ledgers, places, randomness, the worker pool.
`text/` holds kernels on bytes; `sources/` the formats; `acquire/` brings raw files from their publishers; `samples/`
is a little of each source, written for Cloze.
"""
