"""Report what a disk or an object store refuses: one paragraph with a remedy, instead of a traceback."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from corpora.errors import InputError
from corpora.store.places.address import is_object_address
from corpora.store.places.files import disk_refusal

_ELSEWHERE = "choose another store, then run the same command again; finished parts are kept"
_MADE_NOWHERE = "nothing can be made there, or its folder was removed meanwhile: choose another store"
_FORBIDDEN = "you may not: change its permissions or choose another store"
_UNREADABLE = "fix that, or choose another store"
_SILENT = (
    "the object store does not answer properly, even to repeated requests: fix its address, or wait "
    "until it does and run the same command again; finished parts are kept"
)
_OTHERWISE = "the object store refuses: fix the store's address, its region or the credentials"
_REFUSALS = {
    "NO_SUCH_BUCKET": "there is no such bucket: make it, or fix the store's address",
    "ACCESS_DENIED": "these credentials may not do that there: use others, or have them allowed to",
    "INVALID_ACCESS_KEY_ID": "the access key is not known there: fix AWS_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH": "the secret does not fit the access key: fix AWS_SECRET_ACCESS_KEY",
}

# curlCode 60 is a certificate that is not valid: that does not pass.
_PASSING = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|THROTTLING|REQUEST_TIMEOUT)\b"
    r"(?!.*curlCode: 60\b)|HTTP status (5\d\d|429|408)\b",
    re.DOTALL,
)


def passes(error: OSError) -> bool:
    """True if the error that an object store reports may pass by itself."""
    return _PASSING.search(str(error)) is not None


@contextmanager
def remedied(path: str) -> Iterator[None]:
    """Turn what a disk or an object store reports of an unwritable place into a paragraph with a remedy."""
    try:
        yield
    except OSError as error:
        remedy = _refusal(error, path) or disk_refusal(error, _ELSEWHERE) or _MADE_NOWHERE
        raise InputError(f"Cannot write {path}: {remedy} ({error.strerror or error}).") from error


@contextmanager
def readable(path: str, act: str = "read") -> Iterator[None]:
    """Turn what forbids reading into a paragraph with a remedy; below a file is nothing, and a folder is no file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (NotADirectoryError, IsADirectoryError) as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except OSError as error:
        remedy = _refusal(error, path) or (_FORBIDDEN if isinstance(error, PermissionError) else _UNREADABLE)
        raise InputError(f"Cannot {act} {path}: {remedy} ({error.strerror or error}).") from error


def _refusal(error: OSError, path: str) -> str | None:
    """Return the remedy for what an object store reports; None for a folder's path."""
    if not is_object_address(path):
        return None
    if passes(error):
        return _SILENT
    name = re.search(r"AWS Error (\w+)", str(error))
    return _REFUSALS.get(name[1], _OTHERWISE) if name else _OTHERWISE
