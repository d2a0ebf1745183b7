"""Retention of the history in the orchestrator's own database: settings of the servers that are started here.

The server has a service that deletes what is older; it is off by default. If the user's settings name a database, that
is theirs, and nothing is set.
"""

import os

from flows.orchestration.server.database import OF_THE_USER

DAY = 86_400
EVENT_DAYS = 2.0  # events are most of the history's bytes, and nobody looks at old ones


def keep_history(days: float) -> None:
    """Make the servers that this process starts keep their history for some days; what the user has set stays."""
    if any(os.environ.get(name) for name in OF_THE_USER):
        return
    settings = {
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(round(days * DAY)),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ORPHAN_CLEANUP_LOOP_SECONDS": "3600",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"PT{round(min(days, EVENT_DAYS) * DAY)}S",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
