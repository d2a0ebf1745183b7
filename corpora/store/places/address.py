"""Addresses of stores: a folder's path, or `s3://BUCKET/PREFIX?region=...`, read and written again.

Promises: what is printed can be typed again. An address that holds a password or a key is refused, by an error that
does not show it: addresses go into records, reports and logs. Nothing is asked of any server or disk.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

from corpora.errors import InputError

SCHEME = "s3"
MAX_NAME_BYTES = 255  # of one folder or file, in every file system that is in use
CREDENTIALS_REMEDY = (
    "Give keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or name a profile of "
    "~/.aws with AWS_PROFILE, and change a key that stood in a file or on a command line."
)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_HOST = re.compile(r"(https?://)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?/?")
_YES_NO = re.compile("true|false|0|1")
_OPTIONS = {
    "region": re.compile("[A-Za-z0-9-]+"),
    "scheme": re.compile("https?"),
    "endpoint_override": _HOST,
    "allow_bucket_creation": _YES_NO,
    "force_virtual_addressing": _YES_NO,
    "tls_ca_file_path": re.compile("/.*"),
}
_SECRET_OPTION = re.compile("key|secret|token|password|credential|signature|user", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(  # in the query of addresses that S3, Azure, Google and CloudFront sign, and of tokens
    r"signature|token|secret|passw|credential|access[-_]?key|(^|[-_.])(sig|key|api[-_]?key|auth|authorization|policy|jwt)$",
    re.IGNORECASE,
)
_SCHEME_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/(?P<second>/?)(?P<rest>.*)", re.DOTALL)


def normalize_address(text: str) -> str:
    """Return the canonical form of a store's address: a local path, or `s3://BUCKET/PREFIX`.

    A `file:` URL becomes a path, and a leading `~/` becomes the home folder. No disk or server is accessed.

    Raises:
        InputError: If the address has another scheme, is not a valid path, or contains a password or key.

    >>> normalize_address("file:///data/my%20store"), normalize_address("S3://news//2026/")
    ('/data/my store', 's3://news/2026')
    """
    url = _URL.fullmatch(text)
    if url is None:
        return parse_local_path(text)
    scheme = url["scheme"].lower()
    if scheme == "file":
        return parse_local_path(_parse_file_url(url["second"] + url["rest"]))
    if scheme == SCHEME and url["second"]:
        return str(parse_object_address(text))
    raise InputError(
        f"{url['scheme']}:/{url['second']}... is not the address of a folder or an object store: a store is a folder "
        f"of this machine, or {SCHEME}://BUCKET/PREFIX, also of another maker with ?endpoint_override=HOST:PORT. No "
        "other kind is supported."
    )


def has_secret(url: str) -> bool:
    """Return True if a URL contains a user name, a signature, a token or a similar credential.

    >>> has_secret("https://me:pw@host/a"), has_secret("https://host/a?X-Amz-Signature=1"), has_secret("https://host/a?raw=1")
    (True, True, False)
    """
    host = re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]
    names = re.findall(r"[?&;#]([^?&;#=]*)=", url)
    return "@" in host or any(_SECRET_PARAMETER.search(unquote(name)) for name in names)


def without_password(url: str) -> str:
    """Return a server's URL for display. A user name, password, query or fragment is replaced by `***` or `...`.

    >>> without_password("https://user:se?cr/et@host:4200/api?key=secret"), without_password("host:3128")
    ('https://***@host:4200/api?...', 'host:3128')
    """
    match = _SCHEME_PREFIX.match(url)
    scheme = match[0] if match else ""
    _, at, host = url.removeprefix(scheme).rpartition("@")  # a slash or question mark ends no password
    shown, *rest = re.split("[?#]", host, maxsplit=1)
    return f"{scheme}{'***@' if at else ''}{shown}{'?...' if rest else ''}"


def is_object_address(address: str) -> bool:
    """Return True if a normalized address (see `normalize_address`) refers to an object store."""
    return address.startswith(f"{SCHEME}://")


def parse_local_path(text: str) -> str:
    """Check a local path, and replace a leading `~` with the home folder. The path need not exist.

    Raises:
        InputError: If the path is empty, contains a null character, is not UTF-8, or has a component of more than
            MAX_NAME_BYTES bytes.

    >>> parse_local_path("raw/news")
    'raw/news'
    """
    try:
        is_too_long = any(len(piece.encode()) > MAX_NAME_BYTES for piece in text.split("/"))
    except UnicodeEncodeError as error:
        raise InputError(f"{text!a} is not UTF-8: give the folder another name.") from error
    if not text or "\0" in text:
        raise InputError(f"{text!r} is not the path of a folder or file.")
    if is_too_long:
        raise InputError(
            f"{text[:60]!r}... has a name of more than {MAX_NAME_BYTES} bytes, which no file system takes: fix the "
            "path."
        )
    return str(Path(text).expanduser()) if text == "~" or text.startswith("~/") else text


def _parse_file_url(rest: str) -> str:
    """Return the absolute path of a `file:` URL. `rest` is the part of the URL after `file:/`.

    Raises:
        InputError: If the URL names another machine, has a wrong number of slashes, or is not UTF-8.
    """
    host, slash, path = rest.removeprefix("/").partition("/") if rest.startswith("/") else ("", "/", rest)
    if host not in ("", "localhost") or not slash:
        raise InputError("A file:// address is of this machine and has three slashes, as in file:///data/store.")
    try:
        return "/" + unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise InputError("A file:// address is not UTF-8 after its percent signs: write the path itself.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAddress:
    """The address of a folder in an object store. `str` returns it as an `s3://` URL.

    Attributes:
        bucket: Name of the bucket.
        pieces: Components of the prefix, outermost first.
        options: Connection options such as `region`, named as in `pyarrow.fs.S3FileSystem`.
    """

    bucket: str
    pieces: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        path = "/".join(quote(piece, safe="!$'()*+,;=@:~") for piece in self.pieces)
        options = urlencode(self.options, safe=":/[]")
        return f"{SCHEME}://{self.bucket}{f'/{path}' if path else ''}{f'?{options}' if options else ''}"

    @property
    def root(self) -> str:
        """The bucket and prefix as one path, in the form that `pyarrow.fs.S3FileSystem` expects."""
        return "/".join((self.bucket, *self.pieces))


def parse_object_address(text: str) -> ObjectAddress:
    """Parse an address of the form `s3://BUCKET/PREFIX?OPTION=VALUE&...`. Empty components of the prefix are dropped.

    Raises:
        InputError: If the bucket is missing or invalid, an option or its value is unknown, the prefix contains `.` or
            `..`, or the address contains a key or password. The message does not show any part that may be secret.

    >>> print(parse_object_address("s3://news/a b/c%23/?region=eu-west-1"))
    s3://news/a%20b/c%23?region=eu-west-1
    """
    path, _, query = text.partition("://")[2].partition("?")
    bucket, *pieces = path.split("/")
    if "@" in bucket or ":" in bucket:
        raise InputError(
            f"An address of the form {SCHEME}://KEY:SECRET@... is refused: {_SECRET_REASON} {CREDENTIALS_REMEDY}"
        )
    if not _BUCKET.fullmatch(bucket):
        raise InputError(f"The address of an object store is {SCHEME}://BUCKET/PREFIX, and this one names no bucket.")
    options = _parse_options(query)
    try:
        names = tuple(unquote(piece, errors="strict") for piece in pieces if piece)
    except UnicodeDecodeError as error:
        raise InputError(f"An address below {SCHEME}://{bucket} is not UTF-8 after its percent signs.") from error
    if any(name in (".", "..") or "/" in name for name in names):
        raise InputError(f"The address below {SCHEME}://{bucket} goes through `.` or `..`: an object store has none.")
    return ObjectAddress(bucket=bucket, pieces=names, options=options)


_SECRET_REASON = "it would stand in records, reports and logs."


def _parse_options(query: str) -> dict[str, str]:
    """Parse and check the query of an object store's address, such as "region=eu-west-1". Return its options by name.

    Raises:
        InputError: If an option or its value is unknown, or may be a key or password.
    """
    options = dict(parse_qsl(query, keep_blank_values=True))
    for key, value in options.items():
        if key not in _OPTIONS:
            if _SECRET_OPTION.search(key):
                raise InputError(
                    f"A key or token in the address of an object store is refused: {_SECRET_REASON} "
                    f"{CREDENTIALS_REMEDY}"
                )
            raise InputError(
                f"After the ? in the address of an object store may be {', '.join(_OPTIONS)}, and there is something "
                "else."
            )
        if not _OPTIONS[key].fullmatch(value):
            if "@" in value:
                raise InputError(
                    f"A password in {key} of an object store's address is refused: {_SECRET_REASON} "
                    f"{CREDENTIALS_REMEDY}"
                )
            raise InputError(f"The address of an object store has a {key} that cannot be one: {_EXAMPLES[key]}.")
    return options


_EXAMPLES = {
    "region": "write it as in region=eu-west-1",
    "scheme": "it is https or http",
    "endpoint_override": "write it as in endpoint_override=localhost:9000",
    "allow_bucket_creation": "it is true or false",
    "force_virtual_addressing": "it is true or false",
    "tls_ca_file_path": "name a file from /",
}
