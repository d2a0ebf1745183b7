"""The run: recipes, flows, the command line, reports. The only package that knows Prefect.

    recipe.toml ─► stages, in order ─► tasks over ranges of parts ─► manifests ─► report
      recipes/           run/              orchestration/                         report/

    recipes/         what a recipe says, what it was resolved to, and the recipes that come with the program
    run/             the run without an orchestrator: `pipeline.py` is the run as one page
    report/          the HTML page of a run
    engines/         who builds the parts: processes here, or the workers of a Dask cluster
    upkeep/          what of a store is needed, and the removal of the rest
    orchestration/   the only room that knows Prefect: stages as tasks, the server, schedules
    command/         the command line

`launch.py` is the entry of the command and `leaving.py` its end; `environment.py` sets the environment before anything
heavy is imported; `stopping.py` answers signals, in every command and at every moment.
"""
