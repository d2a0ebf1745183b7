"""Retention of the history in the orchestrator's own database: settings of the servers that are started here.

The server has a service that deletes what is older; it is off by default. If the user's settings name a database, that
is theirs, and nothing is set.
"""

import os

from flows.orchestration.server.database import OF_THE_USER

DAY = 86_400
EVENT_DAYS = 2.0  # events are most of the history's bytes, and nobody looks at old ones


def history_settings(days: float) -> dict[str, str]:
    """Return the settings of a server that keeps its history for some days; none if the database is the user's own."""
    if any(os.environ.get(name) for name in OF_THE_USER):
        return {}
    return {
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(round(days * DAY)),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ORPHAN_CLEANUP_LOOP_SECONDS": "3600",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"PT{round(min(days, EVENT_DAYS) * DAY)}S",
    }


def keep_history(days: float) -> None:
    """Make the servers that this process starts keep their history for some days; what the user has set stays."""
    for name, value in history_settings(days).items():
        os.environ.setdefault(name, value)
