"""Raw dumps in, clean deduplicated documents out. The lowest storey: it imports no other package of the house.

    acquire/ ─► raw files ─► documents ─► signatures ─► verdicts ─► corpus
    (fetched)   sources/     judging/     duplicates/               build.py

The rooms, from the ground up:

    kernels/      how code is compiled, and what kernels share
    store/        the floor under all packages: manifests, parts, ledgers, places, randomness, the worker pool
    text/         text as bytes: characters, words, sentences, shingles
    sources/      the formats in which raw files exist, read as records
    judging/      records through all steps, to documents and drops: the stages `fits` and `documents`
    duplicates/   which near-duplicates stay: the stages `signatures` and `verdicts`
    acquire/      raw files from their publishers
    samples/      a little of each source, written for Cloze

`build.py` is the page of the stage `corpora`. `schema.py` has the columns of documents; `tombstones.py` keeps what was
forgotten forgotten; `entry_points.py` loads what other packages add; `errors.py` has the errors that a user can
fix; `lean_process.py` starts a process without what it does not need.
"""
