"""The run with what starts, records and shows it. The only room that knows Prefect.

`flow.py` is the run as a flow of Prefect, with its tasks: start there. `run_recipe.py` is `cloze run`, and the run
without Prefect; both take the steps in `steps.py` (prepare, build, judge, report, release), in which `stages.py` builds
the stages. `run_state.py` is the state of a run, and the one place that prints its lines.

    flow_end         how a flow run ends on record, whatever happens to its process or its server
    pages            what the page of a run shows; first, where the run is
    training_task    a training or fine-tuning run, watched from that page
    notifications    notifications that a run failed, stalls or exceeds a limit in its recipe
    late_runs        runs without a server, shown once there is one
    recording        the server that a run is recorded with; `embedded_server.py` is our own, behind `server_guard.py`
    serve            a recipe when it is due; `scheduled_run.py` says when that is, and is such a run
    deploy           recipes as deployments for the workers of a pool
    approval         a release that waits for the person who approves it
"""
