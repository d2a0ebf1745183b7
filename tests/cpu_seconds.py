"""The CPU seconds that each test file took, told when `make test` ends and kept for `make figures`. They fail nothing.

Counted is the time of the test process and of all processes that it started and waited for. Fixtures of the session
are counted by themselves, because chance decides which file needs one first. A busy machine takes more seconds for the
same work: compare figures of idle ones.

The next run takes the dearest files first, so that no process waits for another at the end.
"""

import resource
from collections import defaultdict
from collections.abc import Generator

import pytest

COLLECTION, SESSION = "collection", "fixtures of the session"
KEPT = "cloze/cpu_seconds"  # in the folder .pytest_cache/v
NUM_SHOWN = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to pytest."""
    parser.addoption("--cpu-seconds", action="store_true", help="show and keep what the dearest test files took")


def pytest_configure(config: pytest.Config) -> None:
    """Measure the run if that is asked for."""
    if config.option.cpu_seconds:
        config.pluginmanager.register(Meter())


def read_seconds(config: pytest.Config) -> dict[str, float]:
    """Return the CPU seconds by file of the last run that kept them, or nothing."""
    cache = getattr(config, "cache", None)  # pytest has none with `-p no:cacheprovider`
    return dict(cache.get(KEPT, {})) if cache else {}


def count_seconds() -> float:
    """Return the CPU seconds of this process and of all processes that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Meter:
    """Adds up CPU seconds by test file; the figures travel with the reports of the tests."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.before = self.fixtures = 0.0
        self.last = False

    def pytest_collection_finish(self) -> None:
        """Count what was spent until now."""
        self.seconds[COLLECTION] += count_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, nextitem: pytest.Item | None) -> Generator[None, object, object]:
        """Measure a test from here on."""
        self.before, self.last = count_seconds(), nextitem is None
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Keep apart what a fixture of the session costs; one that needs another counts it as well, once."""
        if fixturedef.scope != "session":
            return (yield)
        before, others = count_seconds(), self.fixtures
        result = yield
        self.fixtures = others + count_seconds() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give a report the seconds since the one before."""
        report = yield
        now = count_seconds()
        own = now - self.before - self.fixtures
        if self.last and report.when == "teardown":
            own, self.fixtures = 0.0, now - self.before
        report.cpu_seconds = own, self.fixtures
        self.before, self.fixtures = now, 0.0
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up, in the process that shows the reports."""
        own, fixtures = getattr(report, "cpu_seconds", (0.0, 0.0))
        self.seconds[report.nodeid.partition("::")[0]] += own
        self.seconds[SESSION] += fixtures

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Show what the dearest files and all of them took, and keep the figures of every file."""
        dearest = sorted(self.seconds.items(), key=lambda entry: -entry[1])
        terminalreporter.section("CPU seconds")
        for name, seconds in dearest[:NUM_SHOWN]:
            terminalreporter.line(f"{seconds:8.1f}  {name}")
        terminalreporter.line(f"{sum(self.seconds.values()):8.1f}  in all")
        cache = getattr(config, "cache", None)
        if cache:
            cache.set(KEPT, {name: round(seconds, 2) for name, seconds in dearest})
