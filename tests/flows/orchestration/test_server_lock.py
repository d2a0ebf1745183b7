"""Who is answered by a server of ours: attacks by another user of the machine, and by a page in a browser of it.

The law: loopback is no lock. Without the password of this start nothing is read, written or begun; with it, only by a
program, or by a page of the server itself, under a name of this machine; and what is allowed to a run names no program,
file, address or place. Each table is also run against a server that answers everybody, where it has to fail.
"""

import base64
import dataclasses
import http.client
import json
import os
import re
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import launched
import pytest
from browser import browser, browser_path, ui
from launched import Site, new_home
from playwright.sync_api import expect
from prefect.states import Crashed
from terminal import terminal

from corpora.errors import InputError
from corpora.store.places.files import hold_lock
from corpora.store.processes import list_children
from flows.environment import make_home
from flows.orchestration import server_guard as password_module
from flows.orchestration.embedded_server import (
    PASSWORD,
    ask,
    build_client_environment,
    check_port,
    identify_server,
    serve_ui,
)
from flows.orchestration.scheduled_run import build_flow, is_allowed, parse_overrides
from flows.orchestration.server_guard import (
    REPORTS_PATH,
    Guard,
    describe_ui,
    find_password_in_use,
    format_basic_auth,
    get_password_path,
    write_password,
)
from flows.recipes.meanings import SETTINGS
from flows.recipes.recipe import RECIPE_KEYS

EVIL = "http://evil.example"
READ, WRITE = "/api/flow_runs/filter", "/api/flows/"
START = "/api/deployments/00000000-0000-0000-0000-000000000000/create_flow_run"
BODIES = {READ: {}, WRITE: {"name": "attack"}, START: {"parameters": {"set": ['notify.command=["touch", "x"]']}}}
JSON = {"Content-Type": "application/json"}
SOCKETS = ("/api/events/in", "/api/events/out", "/api/logs/out")


def answer(port: int, path: str, headers: Mapping[str, str], method: str = "") -> tuple[int, str]:
    """Status of an answer, and to which origin's pages it is shown."""
    body = json.dumps(BODIES[path]) if path in BODIES and method != "OPTIONS" else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method or ("POST" if body else "GET"), path, body, dict(headers))
        answered = connection.getresponse()
        answered.read()
        return answered.status, answered.headers.get("Access-Control-Allow-Origin", "")
    finally:
        connection.close()


def strangers(right: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Requests without the password of this start: what is tried, the path, the headers."""
    secret, encoded = right.partition(":")[2], format_basic_auth(right)
    known: dict[str, dict[str, str]] = {
        "nothing": {},
        "another": {"Authorization": format_basic_auth("cloze:another")},
        "no user": {"Authorization": format_basic_auth(secret)},
        "half": {"Authorization": format_basic_auth(right[:-8])},
        "longer": {"Authorization": format_basic_auth(f"{right}x")},
        "no secret": {"Authorization": format_basic_auth("cloze:")},
        "key": {"Authorization": f"Bearer {right}"},
        "half a header": {"Authorization": "Basic"},
        "unencoded": {"Authorization": f"Basic {right}"},
        "cookie": {"Cookie": f"prefect-password={encoded.removeprefix('Basic ')}"},
        "other case": {"Authorization": format_basic_auth(right.swapcase())},
    }
    for name, headers in known.items():
        for path in (READ, WRITE, START, f"{REPORTS_PATH}1/2/report.html"):
            yield f"{path} with {name}", path, {**JSON, **headers}
    for path in ("/api/admin/settings", "/api/admin/version", "/api/docs", "/api/openapi.json"):
        yield path, path, {}
    for path in (f"{READ}?x=/api/health", "/api/health/../admin/settings", "/api/ready/../admin/version"):
        yield f"around by {path}", path, JSON
    yield "in the address", f"{READ}?password={secret}", JSON


def pages_and_names(right: str, port: int) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Requests of foreign pages, and under foreign names, though a browser added the right password."""
    knows = {"Authorization": format_basic_auth(right)}
    origins = (EVIL, "null", "http://127.0.0.1:9", f"https://127.0.0.1:{port}", f"http://127.0.0.1.evil.example:{port}")
    for origin in origins:
        for kind in (JSON, {"Content-Type": "text/plain"}, {}):  # the last two need no preflight
            yield f"{kind} from {origin}", READ, {**kind, **knows, "Origin": origin}
        yield f"page of {origin}", "/open", {"Origin": origin}
    for frame in ("iframe", "frame", "embed", "object"):
        yield frame, "/", {**knows, "Sec-Fetch-Dest": frame}
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"0.0.0.0:{port}", "[::1]"):
        for path in (READ, "/api/health", "/", "/open", "/ui-settings", f"{REPORTS_PATH}1/2/report.html"):
            yield f"{path} under {host}", path, {**JSON, **knows, "Host": host}


def talk(port: int, path: str, token: str | None, **headers: str) -> str:
    """What a websocket says to a first message: its status if that is not 101, what it sends, or "closed"."""
    lines = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade", **headers}
    lines |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}
    lines |= {} if token is None else {"Sec-WebSocket-Protocol": "prefect"}
    message = json.dumps({"type": "auth", "token": token} if token is not None else {"type": "filter"}).encode()
    with socket.create_connection(("127.0.0.1", port), 30) as line, line.makefile("rb") as stream:
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        line.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        status = stream.readline().split()[1].decode()
        if status != "101":
            return status
        while stream.readline().strip():
            pass
        line.sendall(b"\x81" + bytes([0x80 | len(message)]) + bytes(4) + message)
        kind, size = stream.read(2)
        return "closed" if kind == 0x88 else stream.read(size & 0x7F).decode()


def attacks(port: int, right: str) -> dict[str, bool]:
    """All attacks on the server of a port by their names: whether each was refused."""
    tried = {}
    for what, path, headers in strangers(right):
        tried[what] = answer(port, path, headers)[0] in (401, 403, 404, 405)
    for what, path, headers in pages_and_names(right, port):
        status, shown_to = answer(port, path, headers)
        tried[what] = status == 403 and not shown_to
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    status, shown_to = answer(port, READ, {**asked, "Origin": EVIL}, "OPTIONS")
    tried["preflight"] = status == 403 and not shown_to
    for path in SOCKETS:
        for name, said in {
            "no handshake": talk(port, path, None),
            "nothing": talk(port, path, ""),
            "another": talk(port, path, "cloze:another"),
            "page": talk(port, path, right, Origin=EVIL),
            "name": talk(port, path, right, Host="evil.example"),
        }.items():
            tried[f"websocket {path} with {name}"] = said in ("401", "403", "closed")
    return tried


class Anybody(BaseHTTPRequestHandler):
    """A server that does what anybody asks. heard: the authorization and the paths that it was shown"""

    heard: list[tuple[str | None, str]]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.heard.append((self.headers["Authorization"], self.path))
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"true")

    do_POST = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def anybody() -> Iterator[tuple[int, list[tuple[str | None, str]]]]:
    """Its port, and what it heard."""
    Anybody.heard = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Anybody) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, Anybody.heard
        server.shutdown()


@pytest.mark.slow
@pytest.mark.server
def test_nobody_else_is_answered(site: Site, anybody: tuple[int, Any]) -> None:
    """Fails if another user, or a page of another origin, is answered anything, or the one who may is not."""
    port, right = urlsplit(site.api).port or 0, build_client_environment(site.api)[PASSWORD]
    tried = attacks(port, right)
    assert len(tried) > 100 and [what for what, refused in tried.items() if not refused] == []
    answered = attacks(anybody[0], right)
    assert answered.keys() - {what.replace(str(port), str(anybody[0])) for what in tried} == set()
    assert not any(answered.values()), "the table fails if everybody is answered"
    knows = {**JSON, "Authorization": format_basic_auth(right)}
    for origin in (None, f"http://127.0.0.1:{port}", f"http://localhost:{port}"):
        status, shown_to = answer(port, READ, {**knows, **({"Origin": origin} if origin else {})})
        assert status == 200 and (not origin or shown_to in ("*", origin))
    assert "auth_success" in talk(port, SOCKETS[1], right) and answer(port, "/open", {})[0] == 200
    assert [status for status, _ in (answer(port, WRITE, JSON), answer(port, "/api/health", {}))] == [401, 200]
    for pid in (os.getpid(), *list_children(os.getpid())):  # the server's among them
        assert right.partition(":")[2].encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_pages_of_a_proxy_may_ask_if_the_user_says_so() -> None:
    """Fails if a proxy before the server is locked out for good, or "*" lets everybody in."""

    def host_and_origin(host: str, origin: str) -> dict[str, Any]:
        return {"type": "http", "path": "/", "headers": [(b"host", host.encode()), (b"origin", origin.encode())]}

    app: Any = object()
    guard = Guard(app, 4200, "cloze:secret", "https://runs.example,*")
    assert guard._choose_app(host_and_origin("runs.example", "https://runs.example")) is app
    for host, origin in (("evil.example", "https://runs.example"), ("127.0.0.1:4200", EVIL), ("127.0.0.1:4200", "*")):
        assert guard._choose_app(host_and_origin(host, origin)) is not app


def test_the_password_is_sent_to_its_server_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anybody: tuple[int, list[tuple[str | None, str]]]
) -> None:
    """Fails if another user who listens where our server was is shown its password, or the key of the user's API."""
    port, heard = anybody
    home = tmp_path / "home"
    (home / "prefect").mkdir(parents=True)
    write_password(home / "prefect", port, "cloze:kept")
    monkeypatch.setenv("PREFECT_HOME", str(home / "prefect"))
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")
    monkeypatch.setenv("PREFECT_API_KEY", "of-mine")
    monkeypatch.setenv(PASSWORD, "of:mine")
    assert not identify_server(home, port)
    assert build_client_environment(f"http://127.0.0.1:{port}/api") == {
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"
    }
    assert ask(f"http://127.0.0.1:{port}/api/admin/version") is True
    with pytest.raises(InputError, match=r"has no password, as those of older versions of Cloze: stop the `cloze ui`"):
        serve_ui(port, print, lambda home, api: None)
    with pytest.raises(InputError, match="or take another port with --port"):
        check_port(port)
    assert {path.partition("?")[0] for _, path in heard} == {"/cloze/proof", "/api/admin/version"}
    monkeypatch.delenv(PASSWORD)
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    assert ask(f"http://127.0.0.1:{port}/api/flows/", {}) is True
    assert {shown for shown, _ in heard} == {None}


def test_the_link_is_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the secret gets into a log, or a person at a terminal does not get it."""
    assert describe_ui(4201, "cloze:secret").startswith("The UI: http://127.0.0.1:4201  (`cloze ui --port 4201`")
    monkeypatch.setattr(password_module.sys.stdout, "isatty", lambda: True, raising=False)
    assert describe_ui(4201, "cloze:secret") == "The UI: http://127.0.0.1:4201/open#secret"


def test_a_password_is_new_unless_runs_know_no_other(tmp_path: Path) -> None:
    """Fails if a browser's password is good for the next start, or runs of a schedule lose their server."""
    write_password(tmp_path, 4200, "cloze:kept")
    assert (
        find_password_in_use(tmp_path, 4200) == ""
        and password_module.generate_password() != password_module.generate_password()
    )
    with hold_lock(tmp_path / "serving-notes.lock"):
        assert (find_password_in_use(tmp_path, 4200), find_password_in_use(tmp_path, 4201)) == ("cloze:kept", "")


def test_the_home_is_closed(tmp_path: Path) -> None:
    """Fails if other users may enter a home that is made here, or the orchestrator's folder in one that was there."""
    made, given = tmp_path / "made", tmp_path / "given"
    (given / "prefect").mkdir(parents=True)
    for folder in (given, given / "prefect"):
        folder.chmod(0o755)
    modes = {}
    for home in (made, given):
        make_home({"CLOZE_HOME": str(home)})
        write_password(home / "prefect", 4200, "cloze:secret")
        modes[home.name] = [
            stat.S_IMODE(path.stat().st_mode)
            for path in (home, home / "prefect", get_password_path(home / "prefect", 4200))
        ]
    assert modes == {"made": [0o700, 0o700, 0o600], "given": [0o755, 0o700, 0o600]}


def test_a_home_that_cannot_be_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a file system without permissions, or the folder of another user, is taken in silence."""
    (tmp_path / "prefect").mkdir(mode=0o755)
    (tmp_path / "prefect").chmod(0o755)
    monkeypatch.setattr(Path, "chmod", lambda path, mode: None)
    with pytest.raises(InputError, match=r"file system keeps no permissions.*Set CLOZE_HOME to a folder of your own"):
        make_home({"CLOZE_HOME": str(tmp_path)})
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(InputError, match="belongs to another user"):
        make_home({"CLOZE_HOME": str(tmp_path)})


# What a run may be given of each table, and what it may not: a new key has to be put into one of the two.
ALLOWED = """
clean profile quotes widths
lines terminal_punctuation min_words max_word_characters drop_javascript drop_policy strip_citations
repeated_lines enabled min_documents min_share sample_bytes
language keep min_confidence keep_unknown sample_bytes
rules gopher repetition c4 fineweb
duplicates threshold permutations shingle_words bands rows max_bucket_comparisons rule prefer enabled
held_out share seed
vocabulary size lowercase strip_accents min_frequency limit_alphabet character_coverage
shards length copies target_tokens seed
training learning_rate warmup_steps weight_decay clip_norm seed max_epochs
"""
REFUSED = """
documents clean language rules steps lines repeated_lines personal_data contamination selection
documents max_document_bytes part_bytes max_damaged_share max_rule_share rule_share_from
personal_data email ip phone email_replacement ip_replacement phone_replacement
contamination sets n min_words max_items drop
selection questions share
vocabulary algorithm unused max_word_length special_tokens symbols
shards input sources masking own
model family size layers hidden_size heads feed_forward_size max_length activation dropout attention_dropout
model embedding_size layer_groups initializer_range initial_positions norm_epsilon window every_global global_base
model local_base pooling
model objective start
training phase beta1 beta2 epsilon precision order window optimizer bias_correction schedule warmup_share layer_decay
training continue_from cache_gb micro_batch micro_batch_tokens compile activation_checkpointing gather device
training deterministic timeout_seconds evaluate_every evaluate_examples checkpoint_every checkpoint_minutes
training async_checkpoints keep_checkpoints log_every health_checks peak_tflops tensorboard processes
privacy samples
retention runs history_days
workers record_cpu_seconds memory_bytes stall_seconds
task task suite train evaluate data columns format header max_unusable metrics seeds baseline control answers sources
task accept
bounds min max fall rise fall_by rise_by worse
release name
notify webhook command on stall_seconds command_seconds
"""


def pairs(text: str) -> set[tuple[str, str]]:
    """Table and key of each that a text has."""
    return {(table, key) for table, *keys in map(str.split, text.strip().splitlines()) for key in keys}


def test_each_setting_is_decided() -> None:
    """Fails if a setting is new, and nobody has decided whether those who may start runs may give it to them."""
    allowed, refused = pairs(ALLOWED), pairs(REFUSED)
    there = {(table, field.name) for table, settings in SETTINGS.items() for field in dataclasses.fields(settings)}
    assert there == allowed | refused and not allowed & refused
    for table, key in there:
        for way in (f"{table}.{key}=1", f'"{table}"."{key}"=1', f"{table}.main.{key}=1"):
            assert is_allowed(way) == ((table, key) in allowed), way
        assert not is_allowed(f"{table}={{}}"), "a whole table has all keys"
    assert {key for key in RECIPE_KEYS if is_allowed(f"{key}=1")} == {"seed"}


TRICKS = (
    'notify.command=["touch", "owned"]',
    '"notify".command=["touch"]',
    "notify . command=['touch']",
    'notify={command = ["touch"]}',
    "seed.notify.command=1",
    "source.1.path=/etc",
    "source.path=/etc",
    "step.1.kind=os:system",
    "store=/elsewhere",
    '"store"=/elsewhere',
    "engine=tcp://evil.example:1",
    "training.continue_from=/etc",
    "model.start=/etc",
    "vocabulary.path=/etc",
    "shards.own.builder=os:system",
    "contamination.sets=['/etc/passwd']",
    "=1",
    ".=1",
)


def test_a_run_is_not_given_more_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if whoever may start a run has it run a program, read a file or write to a place that the recipe does not
    name; or if what the command of the schedule was given itself is refused."""
    for pair in TRICKS:
        with pytest.raises(InputError, match="a run of a schedule is not given this setting"):
            parse_overrides([pair])
    with pytest.raises(InputError, match="write it as key=value"):
        parse_overrides(["seed"])
    monkeypatch.setenv("CLOZE_GIVEN", json.dumps(TRICKS))
    assert len(parse_overrides(TRICKS)) > 10
    with pytest.raises(InputError, match="as `--set store=/another`"):
        parse_overrides([*TRICKS, "store=/another"])


def test_a_refused_run_notifies_by_the_recipe(tmp_path: Path) -> None:
    """Fails if the hook of a failed run, which hides what it raises, runs the command that the run was refused."""
    recipe, heard = tmp_path / "notes.toml", tmp_path / "heard"
    recipe.write_text(f'name = "notes"\n[notify]\ncommand = ["cp", "/dev/stdin", "{heard}"]\n')
    flow: Any = build_flow(recipe)
    state: Any = Crashed(message="gone")
    given: Any = SimpleNamespace(parameters={"set": [f'notify.command=["touch", "{tmp_path / "owned"}"]']})
    for hook in flow.on_crashed_hooks:
        hook(flow, given, state)
    assert json.loads(heard.read_text())["event"] == "failure" and not (tmp_path / "owned").exists()


ATTACKS_OF_A_PAGE = """async ([address, password]) => {
    const body = '{"name": "attack"}', headers = {"Content-Type": "application/json"};
    const known = {...headers, Authorization: password};
    const options = {
        json: {method: "POST", body, headers}, known: {method: "POST", body, headers: known},
        text: {method: "POST", body}, get: {}, cookies: {credentials: "include"},
        blob: {method: "POST", mode: "no-cors", body: new Blob([body])},
    };
    const said = {};
    for (const [name, option] of Object.entries(options)) {
        const path = option.method ? "/api/flows/" : "/api/admin/version";
        said[name] = await fetch(address + path, option).then(answer => answer.type, () => "refused");
    }
    said.socket = await new Promise(tell => {
        const socket = new WebSocket(address.replace("http", "ws") + "/api/events/out", ["prefect"]);
        socket.onopen = () => tell("open");
        socket.onerror = () => tell("refused");
    });
    return said;
}"""


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
@pytest.mark.skipif(browser_path() is None, reason="no Chromium is installed (Debian: apt-get install chromium)")
def test_a_browser_is_let_in_by_the_link_and_no_page_of_others(database: Path, tmp_path: Path) -> None:
    """Fails if the link that a terminal shows does not open the UI, or a page of another origin or name gets in."""
    home = new_home(tmp_path, database)
    report = f"{REPORTS_PATH}00000000-0000-0000-0000-000000000000/run/report.html"
    with ui(home) as address, browser() as page:
        port = urlsplit(address).port or 0
        with terminal(home, "ui", "--port", str(port)) as shown:
            assert shown.code() == 0
        [link] = re.findall(rf"^The UI: ({address}/open#\S+)$", shown.shown, flags=re.MULTILINE)
        for path in (report, "/open#wrong", "/open"):
            page.goto(f"{address}{path}")
            expect(page.get_by_text("lacks the password of this start")).to_be_visible()
        assert page.evaluate("localStorage.getItem('prefect-password')") is None
        page.goto(link)
        page.wait_for_url(re.compile("/dashboard"))
        expect(page.get_by_text("Run a task or flow to get started")).to_be_visible()
        assert page.context.cookies() == [] and "#" not in page.url
        page.goto(f"{address}{report}")
        expect(page.get_by_text("This report does not exist (yet)")).to_be_visible()

        with ThreadingHTTPServer(("127.0.0.1", 0), Anybody) as other:
            Anybody.heard = []
            threading.Thread(target=other.serve_forever, daemon=True).start()
            page.goto(f"http://127.0.0.1:{other.server_port}/")
            password = build_client_environment(f"{address}/api")[PASSWORD]
            said = page.evaluate(ATTACKS_OF_A_PAGE, [address, format_basic_auth(password)])
            other.shutdown()
        assert said.pop("blob") == "opaque" and {*said.values()} == {"refused"}, said  # sent, and refused as well
        answered = page.goto(f"http://evil.example:{port}/open")
        assert answered is not None and answered.status == 403
        assert "attack" not in [flow["name"] for flow in launched.ask(f"{address}/api", "flows")]
