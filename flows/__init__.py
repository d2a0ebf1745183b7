"""The run: recipes, flows, the command line, reports. The only package that knows Prefect.

    recipe.toml ─► stages, in order ─► tasks over ranges of parts ─► manifests ─► report
                        │                      │
                   the store says         Prefect records,
                   what is done           retries, schedules

A Prefect task is a decoration, a call and a return: it asks the store, has ranges of parts built on a pool of
worker processes, publishes, and records the ledger. `pipeline.py` is the run as one page.
"""
