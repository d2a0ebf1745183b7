"""The run without an orchestrator: which stages a recipe asks for, in which order, and what is on record of it.

`pipeline.py` is the run as one page. `planning.py` follows it without building and `reasons.py` says why a stage is
reused or built, `part_sizes.py` how large parts should be, `estimates/` what a run would take; `fetching.py` gets raw
files first, `starting.py` finds the model that a training begins with. `rule_limits.py` stops a run in which one rule
drops a large part of a source, `quarantine.py` lets it go on without a record that ends its worker, `leaving_out.py`
without a raw file that cannot be read, `mending.py` over a damaged file that it builds again. `records.py` is what is
kept of a run, `figures.py` its figures and how two runs differ in them (`accounts.py` and `lengths.py`: what of them
the report shows as well), `addresses.py` finds what people name, `locks.py` lets processes of a machine take turns,
`policies.py` has the knobs that decide no bytes. `looking.py` tells what lies where raw files are and is not read,
`units.py` how many of what. `releases.py` keeps the history of names under which runs were promoted, `bounds.py` says
which figures are not what the recipe holds them to, `notices.py` tells somebody. `pulse.py` is what a run says of
itself while it is under way; `run_states.py` and `status.py` read what runs say; `clearing.py` has runs and the
clean-up of a store take turns.
"""
