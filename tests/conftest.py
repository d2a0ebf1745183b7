"""What all tests share: their order, the real samples next to the checkout, an object store."""

import gc
import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from corpora.store.places import Place

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
BUCKET = "cloze-tests"
STARTED = ROOT / "tests" / "started"
TOGETHER = ("tests/flows/engines/",)  # the cluster, whose five processes are busy even when idle

# Small models are slower on all cores than on one where tests run side by side; what a test starts inherits it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# An example may take as long as a busy machine needs. All else is as hypothesis found it (in CI: no random examples).
settings.register_profile("no haste", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no haste")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start servers come first, then those with slow tests, so that no process waits for another at the end.

    The tests of a file stay together and in order: they share stores and servers.
    """
    ranks: dict[Path, int] = {}
    for item in items:
        rank = next((rank for rank, mark in enumerate(("server", "slow")) if item.get_closest_marker(mark)), 2)
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])


def pytest_collection_finish() -> None:
    """What is imported by now stays to the end, so that no collection of garbage looks through it: each would take a
    second of a core where all test files are imported. Until now none was made, which takes a third off the start."""
    gc.enable()
    gc.collect()
    gc.freeze()


class Scheduler(LoadFileScheduling):
    """The tests of a file, or of a folder in which files share what is dear, go to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduler:
    """`make test` asks for one process for each file."""
    return Scheduler(config, log)


class Examples:
    """Only files with an example are searched for some: to import all others costs each test process ten seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if not any(isinstance(each, DoctestModule) for each in found) or b">>> " in file_path.read_bytes():
            return found
        return [each for each in found if not isinstance(each, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    """The files of the packages are not below this one, so that a hook of this file alone would not see them.

    Nothing is looked for in memory while test files are imported.
    """
    config.pluginmanager.register(Examples())
    gc.disable()


@pytest.fixture(scope="session", autouse=True)
def started_processes() -> Iterator[None]:
    """What a test starts finds `tests/started` first; not so the test processes themselves."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join((str(STARTED), str(ROOT))), prepend=os.pathsep)
        yield


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
