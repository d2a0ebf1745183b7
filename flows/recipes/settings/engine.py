"""The engine that builds a recipe's parts: processes of this machine, or the workers of a Dask scheduler.

It decides no bytes and is in no fingerprint.
"""

import re
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import PORT

LOCAL = "local"
_CLUSTER = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def check_engine(engine: Any) -> str:
    """Return the engine that a value names. Raises InputError.

    >>> check_engine("local"), check_engine("tcp://scheduler:8786")
    ('local', 'tcp://scheduler:8786')
    """
    match = _CLUSTER.fullmatch(engine) if isinstance(engine, str) else None
    if engine == LOCAL or (match is not None and PORT.is_valid(int(match[3]))):
        return str(engine)
    shown = "a text of another form" if isinstance(engine, str) and "@" in engine else repr(engine)
    raise InputError(
        f'engine = {shown} is not an engine: use "{LOCAL}", for worker processes here, or the address of a Dask '
        'scheduler, as in "tcp://scheduler:8786" ("tls://..." where the cluster has certificates).'
    )
