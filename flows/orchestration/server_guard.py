"""Guards our own servers next to Prefect's check of the password: who may ask at all, and how a browser gets it.

    server-PORT.password    of a full server, in the Prefect home: `cloze:` and a random text, new at each start
    (no file)               of the server of one run
    /open#SECRET            keeps the secret in the browser's storage for this address, in which the UI looks for it
    /cloze/proof            shows that the server knows the password
    /cloze/report/FLOW RUN/RUN/report.html
                            the report of a run, sent to who shows the password; a browser first gets a page that asks

Loopback is no lock: every user of the machine, and every page in a browser of it, reaches 127.0.0.1, and who may start
a run there may start any program. Prefect checks the password (PREFECT_SERVER_API_AUTH_STRING); its clients get it by
their environment (PREFECT_API_AUTH_STRING). It is on no command line. There is no cookie: a browser sends those of
127.0.0.1 to every port, and so to the servers of other users. What follows the # of an address is sent to nobody.

A page of the UI may not link to a file of this machine: browsers refuse that. So the Prefect home records the store of
each flow run, and the servers of that home read the report there. They serve nothing of a store but the reports of its
runs, which load nothing and hold no scripts. A server of the user's own does not do this: there the pages show the
command that writes the report and says where it is.

Promise: a request under a name that is not of this machine (somebody's name may lead here), or by a page of another
origin, is refused, whatever it knows, and so is one for a frame in another page. Our own requests send the password
only to a server that has shown that it knows it, by a digest of a random text and of its port, since another user may
listen where a server of ours once was.

Cost of a report: a small file for each flow run, of which the newest stay; a read of the store for each view.
"""

import base64
import hashlib
import hmac
import json
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from uuid import UUID

from corpora.errors import InputError
from corpora.store.places.files import is_locked, replace_file
from corpora.store.places.place import Place

if TYPE_CHECKING:
    from fastapi import FastAPI

USER = "cloze"
OPEN_PATH, REPORTS_PATH, PROOF_PATH = "/open", "/cloze/report/", "/cloze/proof"
FRAMES = ("iframe", "frame", "embed", "object")  # in which a page of others could have a person click
SCRIPT = f"""
const say = text => {{ document.getElementById("say").textContent = text }};
const opening = location.pathname === "{OPEN_PATH}", secret = location.hash.slice(1);
if (opening) history.replaceState(null, "", location.pathname);
if (opening) addEventListener("hashchange", () => location.reload());  // another link in the same tab
async function enter() {{
  const password = opening ? btoa("{USER}:" + secret) : localStorage.getItem("prefect-password");
  const headers = {{Authorization: "Basic " + password}};
  const answer = await fetch(opening ? "/api/admin/version" : location.pathname, {{headers, redirect: "error"}});
  if (answer.status === 401)
    return say("This browser lacks the password of this start of the server. `cloze ui` prints a link that has it.");
  const text = await answer.text();
  if (!answer.ok) return say(text);
  if (!opening) {{ document.open(); document.write(text); return document.close() }}
  localStorage.setItem("prefect-password", password);
  location.replace("/");
}}
enter().catch(error => say("This page cannot be shown: " + error));
"""
PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Cloze</title>
<p id="say">This page needs JavaScript.</p><script>{SCRIPT}</script></html>"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
    f"connect-src 'self'; script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI application that rejects unauthorized requests and passes all others to Prefect's application.

    It wraps Prefect's application instead of being a middleware of it, because Prefect's server also sends requests to
    itself in memory, under another host name.

    Args:
        app: Prefect's application.
        port: The port on which the server listens.
        password: The user and password of the server, as "user:password".
        origins: Additional web origins that may send requests, separated by commas, such as a proxy in front of the
            server.
    """

    def __init__(self, app: Any, port: int, password: str, origins: str = "") -> None:
        self._app, self._port, self._password = app, port, password
        given = {origin for origin in origins.split(",") if origin not in ("", "*")}
        self._origins = {f"http://127.0.0.1:{port}", f"http://localhost:{port}", *given}
        self._hosts = {urlsplit(origin).hostname for origin in self._origins}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        app = self._app if scope["type"] == "lifespan" else self._choose_app(scope)
        await app(scope, receive, send)

    def _choose_app(self, scope: dict[str, Any]) -> Any:
        """Choose the ASGI application that answers a request: Prefect's application, or a response of the guard.

        The guard refuses requests under other host names and from pages of other origins (403), answers challenges, and
        sends the page that asks a browser for the password.

        Args:
            scope: The ASGI scope of the request.
        """
        from fastapi.requests import HTTPConnection
        from fastapi.responses import HTMLResponse, PlainTextResponse

        request, path = HTTPConnection(scope), scope["path"]
        headers = request.headers
        hosts = {host.rpartition(":")[0] or host for host in headers.getlist("host")}
        framed = headers.get("sec-fetch-dest") in FRAMES
        if framed or not (hosts <= self._hosts and {*headers.getlist("origin")} <= self._origins):
            return PlainTextResponse("This server answers its own pages only.", 403)
        if path == PROOF_PATH:
            challenge = request.query_params.get("challenge", "")
            return PlainTextResponse(sign_challenge(self._password, self._port, challenge))
        expected = format_basic_auth(self._password).encode()
        shown = hmac.compare_digest(headers.get("authorization", "").encode(), expected)
        if path == OPEN_PATH or (path.startswith(REPORTS_PATH) and not shown):
            return HTMLResponse(PAGE, 200 if path == OPEN_PATH else 401, HEADERS)
        return self._app


def generate_password() -> str:
    """Generate a password with 144 random bits, and return it as "user:password"."""
    return f"{USER}:{secrets.token_urlsafe(18)}"


def get_password_path(prefect_home: Path, port: int) -> Path:
    """Return the path of the password file of the UI server on a port, in the folder of Prefect's files."""
    return prefect_home / f"server-{port}.password"


def write_password(prefect_home: Path, port: int, password: str) -> None:
    """Write the password of a UI server to a file in the folder of Prefect's files, where other commands find it.

    Only this user can read the file.

    Args:
        prefect_home: The folder of Prefect's files.
        port: The port of the server.
        password: The password as "user:password".

    Raises:
        OSError: If the file cannot be written.
    """
    with replace_file(get_password_path(prefect_home, port)) as new:
        new.chmod(0o600)
        new.write_text(password)


def read_password(prefect_home: Path, port: int) -> str:
    """Return the password of the UI server last started on a port, as "user:password", or "" if there was none.

    Args:
        prefect_home: The folder of Prefect's files.
        port: The port.
    """
    with suppress(OSError, ValueError):
        return get_password_path(prefect_home, port).read_text(encoding="ascii")
    return ""


def find_password_in_use(prefect_home: Path, port: int) -> str:
    """Return a port's most recent password if `cloze serve` is running for this installation, otherwise "".

    A new server must use this password, because it is the only one that the runs of `cloze serve` know.

    Args:
        prefect_home: The folder of Prefect's files.
        port: The port.
    """
    serves = any(map(is_locked, prefect_home.glob("serving-*.lock")))
    return read_password(prefect_home, port) if serves else ""


def sign_challenge(password: str, port: int, challenge: str) -> str:
    """Compute the response to a challenge that proves knowledge of a server's password: an HMAC in hexadecimal.

    The response also depends on the port, so that it cannot be forwarded from a server on another port.

    Args:
        password: The password as "user:password".
        port: The port of the server.
        challenge: Random text that the client chose.

    >>> answer = sign_challenge("cloze:a", 4200, "one")
    >>> answer in (sign_challenge("cloze:a", 4201, "one"), sign_challenge("cloze:b", 4200, "one"))
    False
    """
    return hmac.new(password.encode(), f"{port} {challenge}".encode(), "sha256").hexdigest()


def format_basic_auth(password: str) -> str:
    """Return the value of the `Authorization` header for a password in the form "user:password".

    >>> format_basic_auth("cloze:secret")
    'Basic Y2xvemU6c2VjcmV0'
    """
    return f"Basic {base64.b64encode(password.encode()).decode()}"


def describe_ui(port: int, password: str) -> str:
    """Return a line that explains how to open the UI of a server on this machine.

    The line contains the password only if standard output is a terminal, because other output may be stored.

    Args:
        port: The port of the server.
        password: The password as "user:password".
    """
    address = f"http://127.0.0.1:{port}"
    if sys.stdout.isatty():
        return f"The UI: {address}/open#{password.removeprefix(f'{USER}:')}"
    return f"The UI: {address}  (`cloze ui --port {port}`, on a terminal, prints the link that opens it)"


MAX_KEPT_STORES = 2_000  # flow runs that are kept
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def get_report_path(flow_run_id: str, run_id: str) -> str:
    """Return the URL path at which a server started by Cloze shows the report of a run.

    Args:
        flow_run_id: The id of the run's Prefect flow run.
        run_id: The id of the run itself, which is quoted for a URL.

    >>> get_report_path("5e0c", "2026-R&D (new)")
    '/cloze/report/5e0c/2026-R%26D%20%28new%29/report.html'
    """
    return f"{REPORTS_PATH}{flow_run_id}/{quote(run_id, safe='')}/report.html"


def record_store(prefect_home: Path, flow_run_id: str, place: Place) -> None:
    """Record which store a Prefect flow run belongs to, so that the server can find the run's report.

    If there are more than MAX_KEPT_STORES records, the oldest are removed.

    Args:
        prefect_home: The folder of Prefect's files, in which the record is written.
        flow_run_id: The id of the flow run.
        place: The store.

    Raises:
        OSError: If a file cannot be written.
    """
    folder = prefect_home / "reports"
    folder.mkdir(exist_ok=True)
    with replace_file(folder / f"{UUID(flow_run_id)}.json") as new:
        new.write_text(json.dumps({"store": place.to_address("")}))
    newest_last = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in newest_last[:-MAX_KEPT_STORES]:
        path.unlink(missing_ok=True)


def read_report(prefect_home: Path, flow_run_id: str, run_id: str) -> bytes | None:
    """Read the HTML report of a run from the store that was recorded for its flow run.

    Returns None if it cannot be read.

    Args:
        prefect_home: The folder of Prefect's files, with the records of `record_store`.
        flow_run_id: The id of the flow run.
        run_id: The id of the run.
    """
    if "/" in run_id or run_id.startswith("."):
        return None
    try:
        entry = json.loads((prefect_home / "reports" / f"{UUID(flow_run_id)}.json").read_text())
        return Place(str(entry["store"])).read(f"runs/{run_id}/report.html")
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None


def add_reports(app: "FastAPI", prefect_home: Path) -> None:
    """Register the route for run reports on a server's application, which is modified in place.

    Args:
        app: Prefect's application.
        prefect_home: The folder of Prefect's files, with the records of `record_store`.
    """
    from fastapi.responses import HTMLResponse, PlainTextResponse

    def show(flow_run_id: str, run_id: str) -> Any:
        page = read_report(prefect_home, flow_run_id, run_id)
        if page is None:
            message = (
                "This report does not exist (yet): it is written when the run ends. `cloze report` writes it again."
            )
            return PlainTextResponse(message, 404)
        return HTMLResponse(
            page, headers={"Content-Security-Policy": REPORT_POLICY, "X-Content-Type-Options": "nosniff"}
        )

    app.add_api_route(f"{REPORTS_PATH}{{flow_run_id}}/{{run_id}}/report.html", show, response_model=None)
    app.router.routes.insert(0, app.router.routes.pop())  # the UI takes every address that comes after it
