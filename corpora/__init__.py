"""Raw dumps in, clean deduplicated documents out. The lowest storey: it knows no other package of the house.

    raw files ─► documents ─► signatures ─► verdicts ─► corpus
     sources/    clean, language,   duplicates/         build.py
                 rules

`store/` is the floor under all packages: manifests, parts, ledgers, places, randomness, the worker pool.
`text/` holds kernels on bytes; `sources/` one file a format; `documents.py` and `build.py` are the stages as pages.
"""
