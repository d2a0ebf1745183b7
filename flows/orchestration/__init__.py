"""The run with what starts, records and shows it. The only room that knows Prefect.

`flow.py` is the run as a flow of Prefect, with its tasks: start there. `run_recipe.py` is `cloze run`, and
`unwatched_run.py` the run without Prefect; both go through `steps.py` (prepare, build, judge, report, release), in
which `stages.py` builds the stages. `run_state.py` is the state of a run, and the one place that prints its lines.

    flow_end         how a flow run ends on record, whatever happens to its process or its server
    progress         where a run is; `pages.py` is everything else that its page shows
    training_task    a training watched from that page; `learning_task.py` a fine-tuning
    notifications    notices that a run failed, stalls or crosses a bound
    late_runs        runs without a server, shown once there is one
    recording        the server that a run is recorded with; `embedded_server.py` is our own, behind `server_guard.py`
    serve            a recipe when it is due; `schedule.py` says when, and `scheduled_run.py` is such a run
    deploy           recipes as deployments for the workers of a pool
    release          a run's artifacts under a name; `approval.py` waits for the person who approves
"""
