"""Files of an object store: Arrow's S3 client, with requests repeated as long as the store does not answer.

Promises: after an error that may pass by itself (no connection, a connection that breaks, a 5xx, a 429) the request is
repeated, after waits that double up to eight seconds. The last attempt begins within PATIENCE_SECONDS if the store has
answered this process and no wait for it was in vain since, else within FIRST_PATIENCE_SECONDS. Then, and at once after
any other error, OSError is raised. Reading again and writing an object again change nothing.
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
from corpora.store.places.files import explain_read_errors, is_transient

CONNECT_SECONDS = 5.0
MAX_SILENT_SECONDS = 10.0  # without a byte, after which a request counts as failed
FIRST_PATIENCE_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
_MIN_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.25, 8.0
_CHUNK_BYTES = 1 << 20
FETCH_BYTES = 1 << 21  # bytes that come in the time of one or two more requests

_MISSING_OBJECT = re.compile(r"AWS Error (NO_SUCH_KEY|RESOURCE_NOT_FOUND)\b")
_answering_stores: set[str] = set()  # stores that have answered this process, and were not waited for in vain since


class ObjectFiles:
    """An object store client that retries requests after temporary errors. See the module's docstring.

    Methods raise OSError, like pyarrow, if the last attempt fails.
    """

    def __init__(self, address: ObjectAddress) -> None:
        self._store = str(address.options.get("endpoint_override", address.bucket))
        self._files = self.retry(lambda: _open_file_system(address), proves_contact=False)

    def retry(self, call: Callable[[], Result], proves_contact: bool = True) -> Result:
        """Call a function, and repeat the call after temporary errors.

        Args:
            call: The function, which sends a request.
            proves_contact: True if a successful call shows that the store is reachable. Once it was reached, requests
                are retried for longer.

        Returns:
            The result of the first successful call.

        Raises:
            FileNotFoundError: If the object does not exist.
            OSError: The error of the last attempt.
        """
        started, wait = time.monotonic(), _MIN_WAIT_SECONDS
        while True:
            try:
                result = call()
            except FileNotFoundError:
                raise
            except OSError as error:
                if _MISSING_OBJECT.search(str(error)):
                    raise FileNotFoundError(str(error)) from error
                patience = PATIENCE_SECONDS if self._store in _answering_stores else FIRST_PATIENCE_SECONDS
                if not is_transient(error):
                    raise
                if time.monotonic() - started + wait > patience:
                    _answering_stores.discard(self._store)  # recording the failure does not wait as long again
                    raise
            else:
                if proves_contact:
                    _answering_stores.add(self._store)
                return result
            time.sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_SECONDS)

    def get_file_info(self, selected: str | pafs.FileSelector) -> Any:
        """Look up the size and type of objects like pyarrow's `FileSystem.get_file_info`, with retries.

        Args:
            selected: Bucket and path of one object, or a `FileSelector` for many.

        Returns:
            A `pyarrow.fs.FileInfo` for a path (of type NotFound if there is no such object), or a list of them for a
            selector.

        Raises:
            OSError: If the last attempt fails.
        """
        return self.retry(lambda: self._files.get_file_info(selected))

    def has_object(self, path: str) -> bool:
        """Return True if an object exists. A failed request is not retried.

        Args:
            path: Bucket and path of the object.

        Raises:
            OSError: If the request fails.
        """
        return bool(self._files.get_file_info(path).type == pafs.FileType.File)

    def open_input_file(self, path: str, address: str) -> "ObjectFile":
        """Open an object for reading.

        Args:
            path: Bucket and path of the object.
            address: Name of the object in error messages.

        Raises:
            FileNotFoundError: If the object does not exist.
            OSError: If the last attempt fails.
        """
        return ObjectFile(self, path, self.retry(lambda: self._files.open_input_file(path)), address)

    def delete_file(self, path: str) -> None:
        """Delete the object at `path`, which starts with the name of the bucket.

        Raises:
            FileNotFoundError: If the store reports that the object does not exist.
            OSError: If the request fails.
        """
        self.retry(lambda: self._files.delete_file(path))

    def upload(self, handle: BinaryIO, path: str) -> None:
        """Upload an open file, from its start, to the object at `path`, which starts with the name of the bucket.

        An existing object is replaced.

        Raises:
            OSError: If the last attempt fails.
        """

        def put() -> None:
            handle.seek(0)
            with self._files.open_output_stream(path, compression=None) as stream:
                shutil.copyfileobj(handle, stream, _CHUNK_BYTES)

        self.retry(put)


class _Prefetch(NamedTuple):
    """A byte range of an object that is being fetched in the background."""

    offset: int
    num_bytes: int
    data: Future[bytes]


class ObjectFile:
    """An object that is open for reading, with the same reading methods as `pyarrow.NativeFile`.

    Reading raises FileNotFoundError if the object no longer exists, and InputError if it cannot be read.
    """

    def __init__(self, files: ObjectFiles, path: str, file: pa.NativeFile, address: str) -> None:
        self._files, self._path, self._file, self._address, self._position = files, path, file, address, 0
        self._block, self._block_offset = b"", 0  # the last bytes that were read for a small piece of them
        self._expected = 0  # the offset of the next large piece, if they are read one after another
        self._next_piece: _Prefetch | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> "ObjectFile":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the object and discard the byte range that is being prefetched, if any."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._file.close()

    def size(self) -> int:
        """Return the size of the object in bytes."""
        return int(self._file.size())

    def etag(self) -> str:
        """Return the ETag of the object, or "" if the store does not provide one.

        Raises:
            OSError: If the request fails.
        """
        metadata = self._files.retry(lambda: self._file.metadata())
        return str(metadata.get("ETag", b"").decode()) if metadata else ""

    def read_at(self, num_bytes: int, offset: int) -> bytes:
        """Read `num_bytes` bytes at `offset`. Fewer bytes are returned at the end of the object.

        Reads of fewer than FETCH_BYTES bytes are served from a buffer that is filled with one request. During
        sequential reads of larger pieces, the next piece is prefetched.

        Raises:
            FileNotFoundError: If the object no longer exists.
            InputError: If it cannot be read.
        """
        with explain_read_errors(self._address):
            prefetched, self._next_piece = self._next_piece, None
            if prefetched is not None and prefetched.offset == offset and num_bytes <= prefetched.num_bytes:
                data = prefetched.data.result()[:num_bytes]
                self._prefetch(num_bytes, offset + num_bytes)
            elif num_bytes >= FETCH_BYTES:
                data = self._files.retry(lambda: self._read_piece(num_bytes, offset))
                if 0 < offset == self._expected:
                    self._prefetch(num_bytes, offset + num_bytes)
                self._expected = offset + num_bytes
            else:
                data = self._read_small_piece(num_bytes, offset)
            return data

    def _read_small_piece(self, num_bytes: int, offset: int) -> bytes:
        stop = min(offset + num_bytes, self.size())
        if not self._block_offset <= offset <= stop <= self._block_offset + len(self._block):
            start = 0 if self.size() <= FETCH_BYTES else offset
            self._block, self._block_offset = self._files.retry(lambda: self._read_piece(FETCH_BYTES, start)), start
        return self._block[offset - self._block_offset : stop - self._block_offset]

    def _prefetch(self, num_bytes: int, offset: int) -> None:
        """Start fetching `num_bytes` bytes at `offset` in the background, or fewer at the end of the object."""
        num_bytes = min(num_bytes, self.size() - offset)
        if num_bytes > 0:
            self._thread = self._thread or ThreadPoolExecutor(1, "read-ahead")
            data = self._thread.submit(self._files.retry, lambda: self._read_piece(num_bytes, offset))
            self._next_piece = _Prefetch(offset, num_bytes, data)

    def _read_piece(self, num_bytes: int, offset: int) -> bytes:
        """Read `num_bytes` bytes at `offset` in one attempt. Fewer bytes are returned at the end of the object.

        Raises:
            FileNotFoundError: If the object no longer exists.
            OSError: If it cannot be read.
        """
        try:
            return bytes(self._file.read_at(num_bytes, offset))
        except OSError:
            if not self._files.has_object(self._path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._address) from None
            raise

    def read(self, num_bytes: int | None = None) -> bytes:
        """Read the next `num_bytes` bytes, or all remaining bytes if `num_bytes` is None or negative.

        Raises:
            FileNotFoundError: If the object no longer exists.
            InputError: If it cannot be read.
        """
        wanted = self.size() - self._position if num_bytes is None or num_bytes < 0 else num_bytes
        data = self.read_at(wanted, self._position) if wanted else b""
        self._position += len(data)
        return data

    def seek(self, position: int) -> None:
        """Set the absolute offset, in bytes, at which the next `read` begins."""
        self._position = position


def _open_file_system(address: ObjectAddress) -> pafs.S3FileSystem:
    """Return a pyarrow client for an object store that does not retry requests itself.

    The bucket's region is looked up if it is not configured.

    Raises:
        OSError: If the region cannot be looked up.
    """
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
        request_timeout=MAX_SILENT_SECONDS,
        allow_delayed_open=True,  # an object of one piece is one request
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
