"""Prefect, and nothing else knows it: stages as tasks, the server, schedules.

    execute.py ─► recording.py: server.py (embedded, on database.py), or the user's own; started anew, or done without
               ─► performing.py: the run's page, stage by stage ─► tasks.py: ranges of parts on a pool of processes
                                                                       └─► training.py: a process of its own, watched
    serving.py ─► service.py: a schedule (timetables.py) and its runner ─► deployed.py: the flow of a recipe
               ─► tending.py, history.py: what is due is told, what is over is kept for so long
    deploying.py ─► a prefect.yaml ─► a worker of a pool ─► deployed.py ─► scheduled_run.py: one run ─► execute.py

    execute.py ─► reusing.py: nothing is to be built, so no server is started; one that runs gets one flow run

A Prefect task is a decoration, a call and a return: it has ranges of parts built on a pool of worker processes,
publishes, or shows what is there. `work.py` has the values that tasks are given, which can be sent anywhere;
`run_state.py` is the run itself, which stays where it was started, and the one place where it speaks; `shown.py` is
what a run leaves on the orchestrator's pages, `pages.py` the one place where it goes out, `reports.py` the reports that
a server of ours shows next to them; `notifying.py` is who is told of a run when nobody looks, `promoting.py` a run that
is released, `pausing.py` the person who is asked first.
"""
