"""Prefect, and nothing else knows it: stages as tasks, the server, schedules.

    execute.py ─► server.py (embedded, or the user's own) ─► tasks.py: ranges of parts on a pool of processes
                                                                └─► training.py: a process of its own, watched
    serving.py ─► a schedule ─► scheduled_run.py ─► execute.py

A Prefect task is a decoration, a call and a return: it asks the store, has ranges of parts built on a pool of
worker processes, publishes, and records the ledger.
"""
