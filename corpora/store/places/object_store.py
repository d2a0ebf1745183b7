"""Files of an object store: Arrow's S3 client, with requests repeated while the store does not answer.

Promises: what may pass by itself (no connection, a connection that breaks, a 5xx, a 429) is tried again after waits
that double up to eight seconds; the last attempt begins within `PATIENCE_SECONDS` where the store has answered this
process and no wait for it was in vain since, else within `FIRST_SECONDS`. Then, and at once for anything else, it is an
OSError. Reading again and writing an object again change nothing.
"""

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from corpora.generic_types import Result
from corpora.store.places.address import ObjectAddress
from corpora.store.places.files import passes, readable

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 10.0  # without a byte, after which a request counts as failed
FIRST_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0
_CHUNK = 1 << 20
AT_ONCE = 1 << 21  # bytes that come in the time of one or two more requests

_GONE = re.compile(r"AWS Error (NO_SUCH_KEY|RESOURCE_NOT_FOUND)\b")
_answered: set[str] = set()  # stores that have answered this process, and were not waited for in vain since


class ObjectFiles:
    """The files of one object store. Every method raises OSError as Arrow does, when patience is at its end."""

    def __init__(self, address: ObjectAddress) -> None:
        self._store = str(address.options.get("endpoint_override", address.bucket))
        self._files = self.patiently(lambda: _file_system(address), answers=False)

    def patiently(self, ask: Callable[[], Result], answers: bool = True) -> Result:
        """Return the result of a call, within the attempts that time allows. answers: its result is the store's word"""
        began, wait = time.monotonic(), _FIRST_WAIT
        while True:
            try:
                result = ask()
            except FileNotFoundError:
                raise
            except OSError as error:
                if _GONE.search(str(error)):
                    raise FileNotFoundError(str(error)) from error
                limit = PATIENCE_SECONDS if self._store in _answered else FIRST_SECONDS
                if not passes(error):
                    raise
                if time.monotonic() - began + wait > limit:
                    _answered.discard(self._store)  # recording the failure does not wait as long again
                    raise
            else:
                if answers:
                    _answered.add(self._store)
                return result
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def get_file_info(self, what: str | pafs.FileSelector) -> Any:
        """As Arrow's."""
        return self.patiently(lambda: self._files.get_file_info(what))

    def holds(self, path: str) -> bool:
        """True if the object exists, by one attempt."""
        return bool(self._files.get_file_info(path).type == pafs.FileType.File)

    def open_input_file(self, path: str, address: str) -> "ObjectFile":
        """An object to read from. address: what messages call it"""
        return ObjectFile(self, path, self.patiently(lambda: self._files.open_input_file(path)), address)

    def delete_file(self, path: str) -> None:
        """As Arrow's."""
        self.patiently(lambda: self._files.delete_file(path))

    def upload(self, handle: BinaryIO, path: str) -> None:
        """Make an object of all bytes of a file."""

        def put() -> None:
            handle.seek(0)
            with self._files.open_output_stream(path, compression=None) as stream:
                shutil.copyfileobj(handle, stream, _CHUNK)

        self.patiently(put)


class _Ahead(NamedTuple):
    """A piece of an object that is being fetched."""

    offset: int
    num_bytes: int
    data: Future[bytes]


class ObjectFile:
    """An object that is read at any offset. Raises FileNotFoundError and InputError."""

    def __init__(self, files: ObjectFiles, path: str, file: pa.NativeFile, address: str) -> None:
        self._files, self._path, self._file, self._address, self._position = files, path, file, address, 0
        self._block, self._block_at = b"", 0  # the last bytes that were read for a small piece of them
        self._expected = 0  # the offset of the next large piece, if they are read one after another
        self._ahead: _Ahead | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> "ObjectFile":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no more."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._file.close()

    def size(self) -> int:
        """Its bytes."""
        return int(self._file.size())

    def etag(self) -> str:
        """Return the store's name for these bytes; "" where it gives none. Raises OSError."""
        metadata = self._files.patiently(lambda: self._file.metadata())
        return str(metadata.get("ETag", b"").decode()) if metadata else ""

    def read_at(self, num_bytes: int, offset: int) -> bytes:
        """So many bytes, or fewer at the end. Small pieces come with what is after them, AT_ONCE bytes at a time.

        While large pieces are read one after another, the next one is fetched already.
        """
        with readable(self._address):
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead.offset == offset and num_bytes <= ahead.num_bytes:
                data = ahead.data.result()[:num_bytes]
                self._read_ahead(num_bytes, offset + num_bytes)
            elif num_bytes >= AT_ONCE:
                data = self._files.patiently(lambda: self._piece(num_bytes, offset))
                if 0 < offset == self._expected:
                    self._read_ahead(num_bytes, offset + num_bytes)
                self._expected = offset + num_bytes
            else:
                data = self._small_piece(num_bytes, offset)
            return data

    def _small_piece(self, num_bytes: int, offset: int) -> bytes:
        stop = min(offset + num_bytes, self.size())
        if not self._block_at <= offset <= stop <= self._block_at + len(self._block):
            at = 0 if self.size() <= AT_ONCE else offset
            self._block, self._block_at = self._files.patiently(lambda: self._piece(AT_ONCE, at)), at
        return self._block[offset - self._block_at : stop - self._block_at]

    def _read_ahead(self, num_bytes: int, offset: int) -> None:
        """Begin to fetch a piece, as far as the object has it."""
        num_bytes = min(num_bytes, self.size() - offset)
        if num_bytes > 0:
            self._thread = self._thread or ThreadPoolExecutor(1, "read-ahead")
            data = self._thread.submit(self._files.patiently, lambda: self._piece(num_bytes, offset))
            self._ahead = _Ahead(offset, num_bytes, data)

    def _piece(self, num_bytes: int, offset: int) -> bytes:
        """One attempt. Arrow reports a missing object in several ways, so it is looked up after a fault."""
        try:
            return bytes(self._file.read_at(num_bytes, offset))
        except OSError:
            if not self._files.holds(self._path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._address) from None
            raise

    def read(self, num_bytes: int | None = None) -> bytes:
        """The next bytes, or all that are left."""
        most = self.size() - self._position if num_bytes is None or num_bytes < 0 else num_bytes
        data = self.read_at(most, self._position) if most else b""
        self._position += len(data)
        return data

    def seek(self, position: int) -> None:
        """Read on from another place."""
        self._position = position


def _file_system(address: ObjectAddress) -> pafs.S3FileSystem:
    """Arrow's client, which tries once; a bucket's region is asked for where nothing says it."""
    options = address.options
    region = options.get("region")
    if region is None and "endpoint_override" not in options and not os.environ.get("AWS_ENDPOINT_URL"):
        region = pafs.resolve_s3_region(address.bucket)
    return pafs.S3FileSystem(
        region=region,
        scheme=options.get("scheme"),
        endpoint_override=options.get("endpoint_override"),
        allow_bucket_creation=options.get("allow_bucket_creation") in ("true", "1"),
        force_virtual_addressing=options.get("force_virtual_addressing") in ("true", "1"),
        tls_ca_file_path=options.get("tls_ca_file_path"),
        connect_timeout=CONNECT_SECONDS,
        request_timeout=SILENT_SECONDS,
        allow_delayed_open=True,  # an object of one piece is one request
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
