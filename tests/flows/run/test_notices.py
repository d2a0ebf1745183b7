"""Notices against a receiver that listens, fails, redirects and hangs, and commands that do."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from flows.recipes.run_settings import NotifySettings, parse_notify_settings
from flows.run.record import notifications as notices
from flows.run.record.notifications import Notice, list_setting_warnings, notify

NOTICE = Notice(event="failure", recipe="news", text="It failed.\n\x1b[31m" + "x" * 10_000, run="r1", bounds=("a",))
SECRET = "s3cr3t"


class Receiver(ThreadingHTTPServer):
    """A receiver of posts that answers with statuses one after the other, the last again and again; 0 hangs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = [200]
        self.heard: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.over = threading.Event()
        self.waited_for = False  # until it would have hung no longer

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook/{SECRET}"


class Handler(BaseHTTPRequestHandler):
    """Answers a post as the receiver says."""

    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append(json.loads(body))
        self.server.paths.append(self.path)
        status = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        if not status:
            self.server.waited_for = not self.server.over.wait(600)
            return
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver whose address is in HOOK; waits are short."""
    monkeypatch.setattr(notices, "WAIT_SECONDS", 0.01)
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("HOOK", server.address)
        yield server
        server.over.set()
        server.shutdown()


def sent(tmp_path: Path, notice: Notice = NOTICE, **settings: Any) -> list[str]:
    """Return what is reported of receivers that did not answer."""
    said: list[str] = []
    notify(NotifySettings(**settings), notice, tmp_path, said.append)
    return said


def test_a_webhook_hears_it_once(receiver: Receiver, tmp_path: Path) -> None:
    """Fails if the object lacks what a person needs, acts on a terminal, or has no end; or `on` does not count."""
    assert sent(tmp_path, webhook="HOOK", on=("stall",)) == []
    assert sent(tmp_path, webhook="HOOK") == []
    [heard] = receiver.heard
    assert (heard["event"], heard["recipe"], heard["run"], heard["bounds"]) == ("failure", "news", "r1", ["a"])
    assert heard["text"].startswith("It failed. \ufffd[31mxxx") and len(heard["text"]) == notices.MESSAGE_CHARACTERS
    assert set(heard) == {"event", "recipe", "text", "store", "run", "report", "url", "bounds", "host", "time"}


@pytest.mark.parametrize(
    ("answers", "heard", "said"),
    [
        ([500, 503, 204], 3, ""),
        ([500], 3, "it answers 500"),
        ([429, 200], 2, ""),
        ([404], 3, "it answers 404"),
        ([307], 3, "it answers 307"),
    ],
)
def test_a_webhook_that_fails(receiver: Receiver, tmp_path: Path, answers: list[int], heard: int, said: str) -> None:
    """Fails if it gives up too soon, follows a redirect, or shows the address."""
    receiver.answers = [*answers]
    lines = sent(tmp_path, webhook="HOOK")
    assert len(receiver.heard) == heard
    assert set(receiver.paths) == {f"/hook/{SECRET}"}
    assert lines == ([f"This notice could not be sent (failure) by the webhook of HOOK: {said}."] if said else [])


def test_a_webhook_that_hangs(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a receiver that never answers holds a run up, or a command next to it."""
    receiver.answers = [0]
    monkeypatch.setattr(notices, "MAX_SECONDS", 0.1)
    done = tmp_path / "done"
    [line] = sent(tmp_path, webhook="HOOK", command=("tee", str(done)), command_seconds=2.0)
    assert "by the webhook of HOOK: it " in line and not receiver.waited_for
    assert json.loads(done.read_bytes())["event"] == "failure"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://a.example/x",
        "nowhere at all",
        "http://",
        "file:///etc/passwd",
        "http://[",
        "http://127.0.0.1:9/s3cr3t",
    ],
)
def test_an_address_that_is_none(
    receiver: Receiver, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails if another scheme is tried, a mistake or a refused connection ends the run, or the value is shown."""
    monkeypatch.setenv("HOOK", address)
    [line] = sent(tmp_path, webhook="HOOK")
    assert line.startswith("This notice could not be sent (failure) by the webhook of HOOK: ")
    shown = line + "".join(capfd.readouterr())
    assert not address or (address not in shown and SECRET not in shown)
    assert bool(list_setting_warnings(NotifySettings(webhook="HOOK"), {"HOOK": address})) == (not address)


def test_a_command_reads_it(tmp_path: Path) -> None:
    """Fails if the arguments go through a shell, or the command runs elsewhere than next to its recipe."""
    script = "import json, sys, pathlib; pathlib.Path('heard').write_text(json.load(sys.stdin)['event'] + sys.argv[1])"
    assert sent(tmp_path, command=(sys.executable, "-c", script, "; $HOME `id`")) == []
    assert (tmp_path / "heard").read_text() == "failure; $HOME `id`"


def test_a_command_that_fails(tmp_path: Path) -> None:
    """Fails if a command's end is taken for success, or it outlives its time."""
    [line] = sent(tmp_path, command=("sh", "-c", "exit 3"))
    assert line.endswith("by the command sh: it ended with exit code 3.")
    [line] = sent(tmp_path, command=(str(tmp_path / "no-such-program"),))
    assert "it cannot be started (No such file or directory)" in line
    late = "sleep 600; touch outlived"
    [line] = sent(tmp_path, command=("sh", "-c", f"({late}) & {late}"), command_seconds=0.2)
    assert line.endswith("it took over 0.2 s and was ended.")
    assert not (tmp_path / "outlived").exists()  # it would have been waited for


def test_settings_that_would_tell_nobody_are_refused() -> None:
    """Fails if a secret may stand in a recipe, or a wrong event is taken."""
    with pytest.raises(InputError, match="must be the name of an environment variable"):
        NotifySettings(webhook="https://hooks.example/secret")
    with pytest.raises(InputError, match=r"notify\.on"):
        NotifySettings(on=("failures",))
    with pytest.raises(InputError, match=r"notify\.stall_seconds"):
        NotifySettings(stall_seconds=0.0)
    with pytest.raises(InputError, match=r"notify\.command"):
        NotifySettings(command=("",))
    assert parse_notify_settings('store = 7\n[notify]\nwebhook = "HOOK"\n[more', {}).webhook == "HOOK"
    for text in ("[notify", "notify = 7", "[notify]\nwebhook = 7", "[notfy]"):
        assert not parse_notify_settings(text, {}).is_enabled
