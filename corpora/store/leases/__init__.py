"""Leases: files that say who uses a store, so that no clean-up removes what is in use.

`active_runs.py` says who works with a store now, `reader_lease.py` who reads an artifact.
"""
