"""The report of a run: one HTML page that needs nothing but a browser.

    run record ─► manifests ─► accounts (numbers, from the ledgers)     ─┐
                           └─► samples, examples (text, under privacy)  ─┼─► page ─► report.html
                           └─► figures (lengths, as inline SVG)         ─┘

Every number on the page comes from a manifest's ledger or is counted from rows, and where two stages count the
same thing the page shows both. Every text goes through `samples.Privacy`, which bounds it and shows it, its hash
or nothing. The template escapes everything; the page's own policy forbids it to load anything from anywhere.
"""
