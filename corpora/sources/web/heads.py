"""Heads: a first line, then fields to a blank line, as WARC records have them and the HTTP responses inside.

Promises: lines may end in CR LF or LF. A line that begins with a space or tab continues the field before it. A line
without a colon is passed over. A field is found whatever the case of its name. A head without a blank line ends with
its bytes.
Costs: less than 0.1 ms for a head of fifteen fields.

Source: ISO 28500, WARC 1.1, section 4; RFC 9112, section 2.1.
"""

from typing import NamedTuple

from corpora.sources.bytes.faults import BadRecord

MOST_HEAD_BYTES = 1 << 15
BLANKS = b" \t\n\x0c\r"
# What windows-1252, which senders mean by Latin-1, has where that has control characters.
WINDOWS = {at: bytes((at,)).decode("cp1252") for at in range(0x80, 0xA0) if at not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}


class Head(NamedTuple):
    """A head taken apart. size_bytes: of it all, its blank line included."""

    first_line: bytes
    fields: list[tuple[bytes, bytes]]
    size_bytes: int

    def values(self, name: bytes) -> list[bytes]:
        """Every value of a field, in order. name: in small letters."""
        return [value for key, value in self.fields if key.lower() == name]

    def first(self, name: bytes) -> bytes:
        """The first value of a field; b"" where there is none. name: in small letters."""
        return next((value for key, value in self.fields if key.lower() == name), b"")


def read_head(data: bytes) -> Head:
    r"""The head that these bytes begin with. Raises BadRecord for one that is too long.

    >>> read_head(b"HTTP/1.1 200 OK\r\nServer: a\r\n b\r\n\r\n<html>")
    Head(first_line=b'HTTP/1.1 200 OK', fields=[(b'Server', b'a b')], size_bytes=34)
    """
    lines, size_bytes = _head_lines(data)
    fields: list[tuple[bytes, bytes]] = []
    for line in lines[1:]:
        if line.startswith((b" ", b"\t")):
            name, value = fields.pop() if fields else (b"", None)
            more = line.strip(BLANKS)
            fields.append((name, more if value is None else value + b" " + more))
        elif b":" in line:
            name, _, value = line.partition(b":")
            fields.append((name.strip(BLANKS), value.strip(BLANKS)))
    return Head(lines[0].strip(BLANKS) if lines else b"", fields, size_bytes)


def western(value: bytes) -> str:
    """A value of an HTTP field, every byte a character of windows-1252."""
    return value.decode("latin-1").translate(WINDOWS)


def _head_lines(data: bytes) -> tuple[list[bytes], int]:
    """(the lines before the first blank one, the bytes up to and with that)."""
    lines: list[bytes] = []
    at = 0
    while at < len(data):
        end = data.find(b"\n", at, MOST_HEAD_BYTES) + 1 or len(data)
        if end > MOST_HEAD_BYTES:
            raise BadRecord("Maximum header length exceeded.")
        line, at = data[at:end].removesuffix(b"\n").removesuffix(b"\r"), end
        if not line.strip(BLANKS):
            break
        lines.append(line)
    return lines, at
