"""A budget of CPU seconds for each test file, checked when `make test` ends: `cpu_budgets.toml`.

A file that is not in the table may cost what `default` says. Counted is the time of the test process and of all it
started and waited for. Fixtures of the session are counted apart, because chance decides which file needs one first.

A busy or slow machine takes more seconds for the same work, so each figure is divided by what a fixed piece of work,
done again and again in between, costs there compared with an idle machine of the table. What remains is noise: a
budget that is broken is told, and fails the run only where a file took twice of it on a machine that was idle. A clock
must not decide whether a change is green.
"""

import resource
import tomllib
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from statistics import median
from time import process_time

import pytest

TABLE = Path(__file__).with_name("cpu_budgets.toml")
COLLECTION, SESSION = "collection", "fixtures of the session"
WORK, REFERENCE = 60_000, 0.0033  # a loop, and its CPU seconds on an idle machine
BUSY = 1.5  # times as slow as the idle machine, and broken budgets fail nothing
GRACE = 2.0  # times its budget, and a file fails the run
REMEASURED = 2.0  # CPU seconds of tests between two looks at the machine's speed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to pytest."""
    parser.addoption("--cpu-budgets", action="store_true", help="fail where a test file costs more than its budget")


def pytest_configure(config: pytest.Config) -> None:
    """Measure every test run; what it shows in the end is up to the option."""
    config.pluginmanager.register(Meter(config.option.cpu_budgets))


def budgets_of_files() -> dict[str, float]:
    """Return the budgets of the files that the table names."""
    files: dict[str, float] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["files"]
    return files


def spent() -> float:
    """Return the CPU seconds of this process and of all processes that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def slowness() -> float:
    """Return how many times as long as an idle machine of the table this one takes now."""
    begin, total = process_time(), 0
    for number in range(WORK):
        total ^= number * number
    return (process_time() - begin) / REFERENCE


class Meter:
    """Bills CPU seconds to test files; the figures travel with the reports of the tests."""

    def __init__(self, checked: bool) -> None:
        """Begin with nothing; `checked`: whether a budget that is broken fails the run."""
        self.checked = checked
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.before = self.fixtures = self.since = 0.0
        self.slowness = slowness()
        self.reported: list[float] = []  # how slow the machine was, test by test
        self.last = False

    def pytest_collection_finish(self) -> None:
        """Bill what was spent until now."""
        self.seconds[COLLECTION] += spent() / self.slowness

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, nextitem: pytest.Item | None) -> Generator[None, object, object]:
        """Measure a test from here on; now and then look how fast the machine is."""
        self.before, self.last = spent(), nextitem is None
        if self.before < self.since or self.before > self.since + REMEASURED:
            self.slowness, self.since = slowness(), self.before
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Keep apart what a fixture of the session costs; one that needs another counts it as well, once."""
        if fixturedef.scope != "session":
            return (yield)
        before, others = spent(), self.fixtures
        result = yield
        self.fixtures = others + spent() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give a report the seconds since the one before."""
        report = yield
        now = spent()
        own = now - self.before - self.fixtures
        if self.last and report.when == "teardown":
            own, self.fixtures = 0.0, now - self.before
        report.cpu_seconds = own / self.slowness, self.fixtures / self.slowness, self.slowness
        self.before, self.fixtures = now, 0.0
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up, in the process that shows the reports."""
        own, fixtures, slow = getattr(report, "cpu_seconds", (0.0, 0.0, 1.0))
        self.reported.append(slow)
        self.seconds[report.nodeid.partition("::")[0]] += own
        self.seconds[SESSION] += fixtures

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that took twice a budget on an idle machine."""
        fails = self.checked and not self.is_busy() and bool(self.broken(GRACE))
        if fails and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell what all cost, and which budgets are broken."""
        if not self.checked:
            return
        terminalreporter.section("CPU seconds")
        total = sum(self.seconds.values())
        for name, seconds in sorted(self.seconds.items(), key=lambda entry: -entry[1])[:30]:
            terminalreporter.line(f"{seconds:8.1f}  {name}")
        terminalreporter.line(
            f"{total:8.1f}  in all, as of an idle machine; here work took {self.pace():.2f} times as long"
        )
        for line in self.broken():
            terminalreporter.line(line, red=True)

    def pace(self) -> float:
        """Return how many times as long as on an idle machine of the table the same work took, in the median."""
        return median(self.reported or [1.0])

    def is_busy(self) -> bool:
        """True if the machine was too busy, or is too slow, for its seconds to be held against the budgets."""
        return self.pace() > BUSY

    def broken(self, grace: float = 1.0) -> list[str]:
        """Return a line for each budget of which more than `grace` times was spent."""
        table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
        spent = {**self.seconds, "total": sum(self.seconds.values())}
        budgets = {name: table["files"].get(name, table["default"]) for name in spent} | {"total": table["total"]}
        return [
            f"{name} took {seconds:.1f} CPU seconds, its budget is {budgets[name]} ({TABLE.name})"
            for name, seconds in sorted(spent.items())
            if seconds > budgets[name] * grace
        ]
