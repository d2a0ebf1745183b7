"""The password of our own Prefect servers. Loopback is no lock: every user of the machine, and every page in a browser
of it, reaches 127.0.0.1, and who may start a run there may start any program.

    server-PORT.password    of a full server, in the Prefect home: `cloze:` and a random text, new at each start
    (no file)               of the server of one run

Prefect checks it (PREFECT_SERVER_API_AUTH_STRING); its clients get it by their environment (PREFECT_API_AUTH_STRING).
It is on no command line. `flows.orchestration.server.guard` hands it to the browser of a person.

Promise: our own requests send it only to a server that has shown that it knows it, by a digest of a random text and of
its port, since another user may listen where a server of ours once was.
"""

import base64
import hmac
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from corpora.store.places.files import replaced_file
from corpora.store.places.locks import is_locked

USER = "cloze"
PROOF_PATH = "/cloze/proof"


def new_password() -> str:
    """Return a user and a password of 144 random bits, as Prefect and `curl -u` write them."""
    return f"{USER}:{secrets.token_urlsafe(18)}"


def password_file(prefect_home: Path, port: int) -> Path:
    """Return the file with the password of the full server on a port."""
    return prefect_home / f"server-{port}.password"


def keep_password(prefect_home: Path, port: int, password: str) -> None:
    """Write the password of a full server for the other commands of its home. Raises OSError."""
    with replaced_file(password_file(prefect_home, port)) as new:
        new.chmod(0o600)
        new.write_text(password)


def read_password(prefect_home: Path, port: int) -> str:
    """Return the password of the full server that was started last on a port; "" if there was none."""
    with suppress(OSError, ValueError):
        return password_file(prefect_home, port).read_text(encoding="ascii")
    return ""


def password_in_use(prefect_home: Path, port: int) -> str:
    """Return the last password of a port if a `cloze serve` of the home works: its runs know no other; else ""."""
    serves = any(map(is_locked, prefect_home.glob("serving-*.lock")))
    return read_password(prefect_home, port) if serves else ""


def prove(password: str, port: int, challenge: str) -> str:
    """Return what only a server on this port that knows the password can answer to a challenge.

    >>> prove("cloze:a", 4200, "one") in (prove("cloze:a", 4201, "one"), prove("cloze:b", 4200, "one"))
    False
    """
    return hmac.new(password.encode(), f"{port} {challenge}".encode(), "sha256").hexdigest()


def basic(password: str) -> str:
    """Return the header with which a request shows a password.

    >>> basic("cloze:secret")
    'Basic Y2xvemU6c2VjcmV0'
    """
    return f"Basic {base64.b64encode(password.encode()).decode()}"


def describe_ui(port: int, password: str) -> str:
    """Return the line that leads a person to the UI. Only a terminal gets the link: other output is kept somewhere."""
    address = f"http://127.0.0.1:{port}"
    if sys.stdout.isatty():
        return f"The UI: {address}/open#{password.removeprefix(f'{USER}:')}"
    return f"The UI: {address}  (`cloze ui --port {port}`, on a terminal, prints the link that opens it)"
