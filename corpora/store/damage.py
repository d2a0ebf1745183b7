"""Damage: the error for a stored file that is not what was written, and JSON documents that contain their own digest.

Promise: a sealed document with any byte changed, removed or added is rejected. The digest finds accidents, not forgers.

Cost: one sha256 of the document, some 1.5 GB a second.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corpora.errors import InputError

_SEAL = re.compile(rb',\n "digest": "([0-9a-f]{64})"\n}\n\Z')
MAX_SEAL_BYTES = 96  # a seal is shorter


class Damaged(InputError):
    """Raised if a file of a store is missing, damaged or modified.

    Attributes:
        path: Path of the file, relative to the store.
        what: What is wrong with it.
    """

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.what}. `cloze verify` on its store lists it, and then `cloze run` with its "
            "recipe builds it again."
        )


def seal(document: bytes) -> bytes:
    """Append a digest field to a JSON object: the SHA-256 of the object itself, in hexadecimal digits.

    The object must be formatted over several lines.

    >>> seal(b'{\\n "a": 1\\n}\\n')[:20]
    b'{\\n "a": 1,\\n "digest"'
    """
    body = document.rstrip().removesuffix(b"}").rstrip()
    return body + b',\n "digest": "%s"\n}\n' % hashlib.sha256(body).hexdigest().encode()


def find_digest(data: bytes) -> str:
    """Return the digest at the end of a document written by `seal`; "" if there is none.

    The document is not verified.
    """
    match = _SEAL.search(data[-MAX_SEAL_BYTES:])
    return match[1].decode() if match is not None else ""


def unseal(data: bytes, path: str) -> dict[str, Any]:
    """Verify and parse a document written by `seal`.

    Args:
        data: All bytes of the document.
        path: Path of the document, for the error message.

    Returns:
        The fields of the JSON object, without the digest.

    Raises:
        Damaged: If there is no digest at the end, or it does not match the document.
    """
    match = _SEAL.search(data, max(0, len(data) - MAX_SEAL_BYTES))
    if match is None:
        raise Damaged(path, "it does not end with its digest")
    if hashlib.sha256(memoryview(data)[: match.start()]).hexdigest().encode() != match[1]:
        raise Damaged(path, "its digest is of other bytes")
    fields: dict[str, Any] = json.loads(data[: match.start()] + b"\n}")
    return fields


@contextmanager
def explain_parse_errors(path: str, expected: str) -> Iterator[None]:
    """Convert parse errors inside the block to Damaged. An InputError is propagated unchanged.

    Args:
        path: Path of the document, for the error message.
        expected: What the document should be, for the message, e.g. "a manifest".
    """
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(path, f"it is not {expected} ({error!r})") from error
