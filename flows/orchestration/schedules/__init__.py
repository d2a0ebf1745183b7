"""Recipes on a schedule.

`serve.py` is `cloze serve`; `service.py` has the deployment and the process that starts a run when one is due,
`scheduled_run.py` is that run and `recipe_flow.py` its flow. `timetables.py` says when, `housekeeping.py`
what is due next. `prefect_yaml.py` is `cloze deploy`.
"""
