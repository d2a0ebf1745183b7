"""One run of a recipe as a flow.

`run_recipe.py` is the page: inputs resolved, workers opened, run, recorded, reported. `run_state.py` is the state of a
run, and the one place that prints its lines. `stage_tasks.py` performs its stages as the pieces of work in `work.py`:
`run_flow.py` makes them tasks of a Prefect flow (`flow_tasks.py`), `unwatched_run.py` calls them on threads, and
`late_record.py` describes such a run to a server afterwards. `training_task.py` watches the trainer's process,
`learning_task.py` the one that fine-tunes. `unchanged_run.py` is a run for which the store holds everything;
`notifications.py` sends notices when one fails, stalls or crosses a bound.
"""
