"""The base of all packages: artifacts, and where and how they are built and kept.

    Stage ─► parts, each built by a plain function ─► records ─► manifest.json, in one step

`stage.py` is the page to read first; `manifest.py`, `ledger.py` and `content.py` say what is kept about an artifact,
`part_record.py` what about a part. `part_writer.py` writes tables and `tables.py` reads of them what is asked for,
checked by digests of every column of every record batch (`arrow_layout.py`); `damage.py` names what is not as it was
written, `checking.py` finds it in whole files. `settings.py` says which settings decide an artifact's bytes,
`places.py` where files are, `place_address.py` how that is written, `object_store.py` how requests to an object store
are repeated and `refusals.py` what is reported when one refuses, `files.py` how files appear whole and what killed
processes left, `locks.py` what one process does at a time, `presence.py` which processes work with a store now,
`holding.py` what its readers hold, `pool.py` the workers of a run, `current_record.py` what a worker reports and
`processes.py` what the system does, `randomness.py` how chance is addressed. `kept_arrays.py` keeps tables of kernels
that take a while to make.
"""
