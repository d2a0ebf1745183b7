"""Is a store what was written into it, and how it becomes that again.

    holdings ─► faults ─► repair

`holdings.py` reads what the documents of a store say there is, `faults.py` compares it with the files that are there,
`repair.py` makes again what is damaged. `rebuilding.py` builds a part again next to its artifact, to compare the two;
`alone.py` lets one process at a time change a store.
"""
