"""Run the tests in several processes: `pytest --processes 3`.

All tests are collected once, in the first process, which then forks. So the processes cannot disagree on which tests
there are, and what the test files import is paid for once: 20 seconds of a core, and 900 MB of which most stays shared.

Each process takes one file after another, or those of `TOGETHER` that share a thing, because the tests of a file share
stores and servers; fixtures of the session live as long as their process. Files come in the order in which they were
collected.
A test that ends its process is reported as failed, and a new process takes the rest of its file.
"""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest

# What files share that is dear: a cluster, whose processes are busy even when idle, a server, whose start takes ten
# seconds of a core, and all sources of the packages, parsed.
TOGETHER = {
    "tests/flows/engines/": "cluster",
    "tests/flows/orchestration/": "server",
    "tests/flows/command/test_messages.py": "sources",
    "tests/test_house.py": "sources",
    "tests/test_runbook.py": "sources",
}

Group = list[pytest.Item]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to pytest."""
    parser.addoption(
        "--processes", type=int, default=0, help="run the tests in so many processes (default: in this one)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forked processes, where that is asked for; else leave it to pytest."""
    options = session.config.option
    if not options.processes or options.collectonly or session.testsfailed:
        return None
    Pool(session).run(options.processes)
    return True


def group_items(items: Sequence[pytest.Item]) -> list[Group]:
    """Return the tests by file, or by what those of `TOGETHER` share, in the order in which each begins."""

    def scope(item: pytest.Item) -> str:
        file = item.nodeid.partition("::")[0]
        return next((shared for beginning, shared in TOGETHER.items() if file.startswith(beginning)), file)

    groups: dict[str, Group] = {}
    for name, members in groupby(items, scope):
        groups.setdefault(name, []).extend(members)
    return list(groups.values())


@dataclass(slots=True, kw_only=True)
class Process:
    """A forked process as the first one sees it: its end of the line, and what it has in hand."""

    pid: int
    line: Connection
    groups: list[Group]
    running: str = ""


class Pool:
    """The first process: hands out groups of tests and passes on what the others report."""

    def __init__(self, session: pytest.Session) -> None:
        """Take what was collected."""
        self.session, self.config = session, session.config
        self.items = {item.nodeid: item for item in session.items}
        self.waiting = group_items(session.items)
        self.processes: dict[Connection, Process] = {}

    def run(self, number: int) -> None:
        """Run everything in `number` processes; end them all where the session is to stop."""
        self.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all processes
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # files are mixed: no name in front of the dots
        try:
            for _ in range(min(number, len(self.waiting))):
                self.fork()
            while self.processes:
                for line in wait(list(self.processes)):
                    self.listen(self.processes[line])  # type: ignore[index]
                self.stop_if_asked()
        finally:
            self.end_all()

    def fork(self) -> None:
        """Start one more process."""
        here, there = (Connection(end.detach()) for end in socket.socketpair())
        pid = os.fork()
        if pid == 0:
            here.close()
            for other in self.processes:
                other.close()
            run_in_fork(self.config, there, self.items)
        there.close()
        self.processes[here] = Process(pid=pid, line=here, groups=[])

    def listen(self, process: Process) -> None:
        """Take one message of a process: it wants tests, begins one, reports, or is gone."""
        try:
            kind, content = process.line.recv()
        except (EOFError, ConnectionResetError):
            return self.bury(process)
        if kind == "next":
            group = self.waiting.pop(0) if self.waiting else []
            process.groups.append(group)
            process.line.send([item.nodeid for item in group])
        elif kind == "begin":
            process.running = content
        else:
            self.report(content)
        return None

    def report(self, data: dict[str, Any]) -> None:
        """Tell pytest here what a test came to there."""
        report = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
        self.config.hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            self.config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def bury(self, process: Process) -> None:
        """Take leave of a process; where it died in the middle of a test, report that and have another do the rest."""
        del self.processes[process.line]
        process.line.close()
        status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        if not process.running and not status:
            return
        cause = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        if not process.running:
            raise RuntimeError(f"a process of the tests ended with {cause} between two tests")
        item = self.items[process.running]
        message = f"the process of this test ended with {cause}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", message, "call")
        self.config.hook.pytest_runtest_logreport(report=report)
        held = [each for group in process.groups for each in group]
        rest = held[held.index(item) + 1 :]
        if rest:
            self.waiting.insert(0, rest)
        if self.waiting:
            self.fork()

    def stop_if_asked(self) -> None:
        """Raise as pytest's own loop does, after `-x` or `--maxfail`."""
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def end_all(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            os.waitpid(process.pid, 0)


class Sender:
    """The plugin of a forked process: what would be shown goes over the line."""

    def __init__(self, config: pytest.Config, line: Connection) -> None:
        """Send over `line`."""
        self.config, self.line = config, line

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.line.send(("report", data))


def run_in_fork(config: pytest.Config, line: Connection, items: dict[str, pytest.Item]) -> NoReturn:
    """Run the tests that the first process hands out, then end without whatever that one would do at its own end."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:  # its files are the first process's
            capture.stop_global_capturing()
            capture.start_global_capturing()
        reporter = config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)
        config.pluginmanager.register(Sender(config, line))
        for item, following in pairs(line, items):
            line.send(("begin", item.nodeid))
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        line.send(("begin", ""))
        code = 0
    finally:
        os._exit(code)


def pairs(line: Connection, items: dict[str, pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Yield each test with the one after it, which says which fixtures stay; groups are asked for one ahead."""

    def ask() -> Iterator[str]:
        while True:
            line.send(("next", None))
            names = line.recv()
            if not names:
                return
            yield from names

    names = ask()
    name = next(names, None)
    while name is not None:
        following = next(names, None)
        yield items[name], None if following is None else items[following]
        name = following
