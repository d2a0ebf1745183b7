"""One run of a recipe as a flow.

`run_recipe.py` is the page: inputs resolved, server started, run, recorded, reported. `run_state.py` is the state of a
run, and the one place that prints its lines. `stage_tasks.py` performs its stages, as the tasks of `tasks.py`;
`training_task.py` watches the trainer's process, `learning_task.py` the one that fine-tunes. `unchanged_run.py` is a
run for which the store holds everything; `notifications.py` sends notices when one fails, stalls or crosses a bound.
"""
