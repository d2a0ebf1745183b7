"""The floor under everything: what an artifact is, and where and how it comes to stand.

    Stage ─► parts, each built by a plain function ─► records ─► manifest.json, in one step

`stage.py` is the page to read first; `manifest.py`, `ledger.py` and `content.py` say what is kept about an
artifact, `places.py` where files stand, `pool.py` who works, `randomness.py` how chance is addressed.
"""
