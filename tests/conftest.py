"""What all tests share: one folder of compiled kernels, the real samples beside the checkout, an object store."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from corpora.kernels import kernel_digest
from corpora.store.places import Place

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
BUCKET = "cloze-tests"

# Small models are slower on all cores than on one where tests run side by side; what a test starts inherits it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# numba reads it when it is first imported, which nothing above does; the processes that tests start inherit it.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cloze" / "kernels" / kernel_digest(ROOT)))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples beside the checkout; a test that needs it is skipped where it is absent."""
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
