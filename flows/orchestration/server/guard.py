"""Guards our own servers beside Prefect's check of the password: who may ask at all, and how a browser gets it.

    /open#SECRET      keeps the secret in the browser's storage for this address, in which the UI looks for it
    /cloze/report/    a report is sent to who shows the password. A browser first gets a page that asks with it
    /cloze/proof      shows that the server knows the password (`password.py`)

There is no cookie: a browser sends those of 127.0.0.1 to every port, and so to the servers of other users. What follows
the # of an address is sent to nobody.

Promise: a request under a name that is not of this machine (somebody's name may lead here), or by a page of another
origin, is refused, whatever it knows, and so is one for a frame in another page.
"""

import base64
import hashlib
import hmac
from typing import Any
from urllib.parse import urlsplit

from fastapi.requests import HTTPConnection
from fastapi.responses import HTMLResponse, PlainTextResponse

from flows.orchestration.server.password import PROOF_PATH, USER, basic, prove

OPEN_PATH, REPORTS_PATH = "/open", "/cloze/report/"
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
    """A server's application behind its guard. origins: others whose pages may ask (of a proxy before the server)

    It is around the application, not in it: Prefect's server asks itself, in memory, under a name of its own.
    """

    def __init__(self, app: Any, port: int, password: str, origins: str = "") -> None:
        self._app, self._port, self._password = app, port, password
        given = {origin for origin in origins.split(",") if origin not in ("", "*")}
        self._origins = {f"http://127.0.0.1:{port}", f"http://localhost:{port}", *given}
        self._hosts = {urlsplit(origin).hostname for origin in self._origins}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        app = self._app if scope["type"] == "lifespan" else self._answer_to(scope)
        await app(scope, receive, send)

    def _answer_to(self, scope: dict[str, Any]) -> Any:
        """Return what answers a request: the application, or an answer of our own."""
        asked, path = HTTPConnection(scope), scope["path"]
        headers = asked.headers
        hosts = {host.rpartition(":")[0] or host for host in headers.getlist("host")}
        framed = headers.get("sec-fetch-dest") in FRAMES
        if framed or not (hosts <= self._hosts and {*headers.getlist("origin")} <= self._origins):
            return PlainTextResponse("This server answers its own pages only.", 403)
        if path == PROOF_PATH:
            return PlainTextResponse(prove(self._password, self._port, asked.query_params.get("challenge", "")))
        shown = hmac.compare_digest(headers.get("authorization", "").encode(), basic(self._password).encode())
        if path == OPEN_PATH or (path.startswith(REPORTS_PATH) and not shown):
            return HTMLResponse(PAGE, 200 if path == OPEN_PATH else 401, HEADERS)
        return self._app
