"""The report of a run: one HTML page that needs nothing but a browser.

    run record ─► manifests ─► accounts (counts, from the ledgers) ─► flow_picture (the run drawn)   ─┐
      │                    └─► texts (samples, duplicates compared, examples; under privacy)         ─┤
      │                    └─► vocabularies, models (the model and its tasks), plots                 ─┼─► page
      └─► figures of this run and of the one before ─► compared ─► front (its head, with remarks)    ─┘

The head answers first: whether anything is wrong (`front.py`), what was not read and held out, whether training was
worth it, the run as one picture from raw to examples, the loss, the growth, and how it compares with the run before
(`compared.py`). Everything else is in sections below it that open by a click on their line, by a link, and in print,
without a script. A suite of tasks has another page: `evaluation.py`.

Drawings take values and give SVG or marked text: `flow_picture.py` draws a run as bands, `lineage_picture.py` what was
made from what, `plots.py` histograms, curves and generations, `masked_example.py` an example with its masks.

Every number on the page comes from a manifest's ledger or from a model's table of metrics, or is counted from rows;
times come from the run's record. If two stages count the same thing, the page shows both. A run may have several
vocabularies and shard sets: each is shown under its name. Every text of a document goes through `Privacy` of
`flows.recipes.privacy`, which shortens it and shows it, its hash or nothing. The template escapes everything; the
page's own policy forbids it to load anything from anywhere.
"""
