"""Raw dumps in, clean deduplicated documents out. This is the lowest package: it imports no other package of the
project.

    1. A source (`sources/`) cuts each `RawFile` into slices and reads them: `Record`s, each with its `Locator`.
    2. `judging/` cleans and judges a batch of records: rows of `DOCUMENTS`, and rows of `DROPPED` with their reasons.
    3. `duplicates/` sketches each document (128 minima) and decides over all of them: verdicts, one row a document.
    4. `build.py` applies the verdicts: a `Corpus`, generation by generation. `views.py` reads its rows with the columns
       of their documents: the texts are in a store once.
    5. Each of these is a `Stage` of `store/`: built part by part, and complete once it has its `Manifest`.

The rooms, from the ground up:

    kernels/      how code is compiled, and what kernels share
    store/        the floor under all packages: manifests, parts, ledgers, places, randomness, the worker pool
    text/         text as bytes: characters, words, sentences, shingles
    sources/      the formats in which raw files exist, read as records
    judging/      records through all steps, to documents and drops: the stages `fits` and `documents`
    duplicates/   which near-duplicates stay: the stages `signatures` and `verdicts`
    acquire/      raw files from their publishers
    samples/      a little of each source, written for Cloze

`schema.py` has the columns of documents and of drops; `tombstones.py` keeps what was forgotten forgotten;
`entry_points.py` loads what other packages add; `errors.py` has the errors that a user can fix, `generic_types.py`
the types that functions have in common; `lean_process.py` starts a process without what it does not need.
"""
