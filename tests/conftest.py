"""Set-up of all tests: their order, the real samples next to the checkout, an object store."""

import gc
import logging
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pyarrow.fs as pafs
import pytest
import tiers
from _pytest.doctest import DoctestModule
from checkout import ROOT
from collecting import add_remedy, place_file
from cpu_seconds import read_seconds

from corpora.kernels.compiling import make_kernel_folder
from corpora.store.places.place import Place
from flows.environment import exclude_loopback_from_proxy

SHARED = ROOT.parent / "shared"
BUCKET = "cloze-tests"
OF_THE_USER = ("AWS_", "CLOZE_PREFECT_", "HF_HOME", "PREFECT_", "XDG_CACHE_", "XDG_CONFIG_", "XDG_DATA_")
STARTED = ROOT / "tests" / "started"

# Small models are slower on all cores than on one where tests run side by side; what a test starts inherits it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Servers of tests are on the loopback, which a proxy of the machine must leave alone.
exclude_loopback_from_proxy(os.environ)

tiers.load_profile()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the dearest files first, so that no process waits for another at the end.

    CLOZE_TEST_ORDER=SEED puts the files in a random order instead, the same one for the same seed. The tests of a file
    stay together and in order: they share stores and servers.
    """
    seed, seconds = os.environ.get("CLOZE_TEST_ORDER"), read_seconds(config)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: place_file(item.path.relative_to(ROOT).as_posix(), seed, seconds, slow[item.path]))


def pytest_collection_finish() -> None:
    """Keep what is imported by now out of garbage collection to the end: each collection would take a
    second of a core where all test files are imported. None is made until here, which takes a third off the start."""
    gc.enable()
    gc.collect()
    gc.freeze()


class Examples:
    """Only files with an example are searched for some: to import all others costs each test process ten seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if not any(isinstance(each, DoctestModule) for each in found) or b">>> " in file_path.read_bytes():
            return found
        return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """The files of the packages are not below this one, so that a hook of this file alone would not see them.

    Nothing is looked for in memory while test files are imported, and what they import finds no settings of the user.
    """
    config.pluginmanager.register(Examples())
    gc.disable()
    environment = pytest.MonkeyPatch()
    config.add_cleanup(environment.undo)
    use_home(config._tmp_path_factory.mktemp("home"), environment)  # type: ignore[attr-defined]


def use_home(home: Path, environment: pytest.MonkeyPatch) -> None:
    """Make a folder the home of the user and of caches. It is empty: only compiled kernels are those of the user."""
    for caches in (home / ".cache" / "cloze", home / ".cloze"):
        caches.mkdir(parents=True)
        (caches / "kernels").symlink_to(make_kernel_folder().parent)
    for name in [name for name in os.environ if name.startswith(OF_THE_USER)]:
        environment.delenv(name)
    environment.setenv("HOME", str(home))
    environment.setenv("CLOZE_HOME", str(home / ".cloze"))


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def say_remedy(report: Report) -> Report:
    """Return the report of a test or of a file, which says what mends it where it is skipped for a package."""
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.longrepr = (path, line, add_remedy(reason))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped says what mends it."""
    return say_remedy((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """So does a file."""
    return say_remedy((yield))


@pytest.fixture(scope="session", autouse=True)
def started_processes() -> Iterator[None]:
    """Let processes that a test starts find `tests/started` first; the test processes themselves do not."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join((str(STARTED), str(ROOT))), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give each test process a home and an empty working folder, so that no test depends on older runs, on settings of
    the user, or on what lies in the checkout. Returns the working folder."""
    folder = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as environment:
        use_home(tmp_path_factory.mktemp("home"), environment)
        environment.chdir(folder)
        yield folder


@pytest.fixture(autouse=True)
def nothing_is_left(working_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a test that leaves something in the working folder of all; one that writes there takes its own
    (`monkeypatch.chdir(tmp_path)`)."""
    yield
    if left := [path.name for path in working_folder.iterdir()]:
        for path in working_folder.iterdir():
            path.rename(tmp_path_factory.mktemp("left") / path.name)  # it fails no other test
        pytest.fail(f"this was left in the working folder of all tests: {left}")


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """transformers, which asks its hub for nothing; a test that needs it is skipped where it is not installed."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module: ModuleType = pytest.importorskip("transformers")
    return module


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples next to the checkout; a test that needs it is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the real samples are not here: {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """`host:port` of a real S3 server on a free port of the loopback, with one bucket. Mark its tests `server`."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line a request hides what failed
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "testing")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        address = f"s3://{BUCKET}?endpoint_override={host}:{port}&scheme=http&allow_bucket_creation=true"
        files, bucket = pafs.FileSystem.from_uri(address)
        files.create_dir(bucket)
        yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def s3_store(s3_endpoint: str, request: pytest.FixtureRequest) -> Place:
    """An empty store on the object store, one for each test. Mark its tests `server`."""
    prefix = "".join(letter if letter.isalnum() else "-" for letter in request.node.nodeid)
    return Place(f"s3://{BUCKET}/{prefix}?endpoint_override={s3_endpoint}&scheme=http")
