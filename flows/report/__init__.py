"""The report of a run: one HTML page that needs nothing but a browser.

    run record ─► manifests ─► accounts (numbers, from the ledgers) ─► flow (the ledger drawn)    ─┐
                           └─► texts (samples, duplicates compared, examples; under privacy)      ─┼─► page
                           └─► vocabularies, figures (lengths), trained and curves (the model)    ─┘

Every number on the page comes from a manifest's ledger, from a model's table of metrics, or is counted from rows, times
from the run's record; where two stages count the same thing the page shows both. A run may have several vocabularies
and shard sets: each is shown under its name; `measures` says how good a vocabulary is. Every text of a document goes
through `Privacy` of `flows.recipes.privacy`, which bounds it and shows it, its hash or nothing. The template escapes
everything; the page's own policy forbids it to load anything from anywhere.
"""
