"""The run: recipes, flows, the command line, reports. The only package that knows Prefect.

    1. `recipes/` checks a TOML file into a `Recipe`, and its lock says which raw files it means.
    2. `run/pipeline.py` plans one `Stage` after another: the run as one page.
    3. `orchestration/flow.py` is the run as a flow of Prefect, with its tasks. Its steps are in
       `orchestration/steps.py`: prepare, build, judge, report, release. Stages are built on an engine of `engines/`.
    4. Each stage ends with a `Manifest`; `run/record/` keeps what happened.
    5. `report/` draws the HTML page of the run; `export/` writes data for others.

`maintenance/` says what of a store is needed and removes the rest, `integrity/` checks a store, and
`command/` is the command line. `main.py` is its entry, `process_exit.py` its end, `environment.py` sets the environment
before anything heavy is imported, and `signals.py` answers signals in every command and at any time.
"""
