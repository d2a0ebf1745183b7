"""The report of a run: one HTML page that needs nothing but a browser.

    run record ─► manifests ─► accounts (numbers, from the ledgers) ─► flow (the run drawn)       ─┐
      │                    └─► texts (samples, duplicates compared, examples; under privacy)      ─┤
      │                    └─► vocabularies, figures (lengths), trained and curves (the model)    ─┼─► page
      └─► figures of this run and of the one before ─► compared, remarks ─► front (its head)      ─┘

The head answers first: whether anything is wrong (`front.py`), what was not read and held out, whether training was
worth it, the run as one picture from raw to examples, the loss, the growth, and how it compares with the run before
(`compared.py`). Everything else is folded below it: by a line of its own, opened by it,
by a link to it, and in print. No script is needed for that. A suite of tasks has another page: `evaluation.py`.

Drawings take values and give SVG or marked text: `flow_picture.py` draws a run as bands, `lineage_picture.py` what was
made from what, `plots.py` axes, curves and generations, `masked_example.py` an example under its masks.

Every number on the page comes from a manifest's ledger, from a model's table of metrics, or is counted from rows, times
from the run's record; where two stages count the same thing the page shows both. A run may have several vocabularies
and shard sets: each is shown under its name. Every text of a document goes
through `Privacy` of `flows.recipes.privacy`, which bounds it and shows it, its hash or nothing. The template
escapes everything; the page's own policy forbids it to load anything from anywhere.
"""
