"""Everything that uses Prefect: stages as tasks, the server, schedules.

1. `runs/` carries out a recipe as a flow, each stage as tasks over ranges of parts.
2. `server/` starts the embedded server, and records what it can of a run.
3. `pages/` is what a run shows in the UI: ledgers, samples, lineage, its report.
4. `schedules/` runs a recipe when it is due, and writes deployments for work pools.
5. `releases/` promotes what a run built, after a person's approval if that is needed.
"""
