"""A mailbox in the format mbox, cut into its messages.

A message begins at a line `From ADDRESS ... TIME ...` at the file's beginning or after a blank line. Such a line inside
a message begins none where the message's `Content-Length` reaches beyond it and ends where the next one begins. (mboxo,
mboxrd, mboxcl and mboxcl2, RFC 4155.)

Promises: a message of any length is passed over in bounded memory. A mailbox that does not begin with such a line is
refused. Cost: one pass over the lines, about 100 MB/s. Memory: one message of at most `max_bytes`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from corpora.sources.bytes.raw_files import Line

FROM_LINE = re.compile(rb"From \S.*\d\d?:\d\d|From \S+\s*$|From [^\s@]+@\S+\s")
LENGTH = re.compile(rb"content-length:\s*(\d{1,12})\s*$", re.IGNORECASE)
ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)


class NoMailbox(ValueError):
    """A file whose first line begins no message."""


@dataclass(slots=True)
class _Message:
    """A message that is being read.

    lines:  so far; None where they are too many bytes
    begins: places in `lines` where another might begin
    length: of its body, as its head says; end: the byte after that body; -1: not known
    """

    start: int
    stop: int
    lines: list[Line] | None = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    length: int = -1
    end: int = -1
    in_head: bool = True

    def take(self, line: Line, max_bytes: int) -> None:
        """Add a line."""
        if not self.in_head and self.length >= 0 and self.end < 0:
            self.end = line.offset + self.length
        if self.in_head and line.data is not None:
            match = LENGTH.match(line.data)
            self.length = int(match[1]) if match else self.length
            self.in_head = bool(line.data)
        self.stop = line.offset + line.length
        if line.data is None or self.stop - self.start > max_bytes:
            self.lines = None
        if self.lines is not None:
            self.lines.append(line)

    def ends_at(self, offset: int) -> bool:
        """Return True if its head says that it ends here, a blank line after it or not."""
        return 0 <= self.end <= offset <= self.end + 2

    def pieces(self, whole: bool) -> Iterator[Line]:
        """The message, or all that it is where its head is wrong."""
        if self.lines is None:
            yield Line(self.start, self.stop - self.start, None)
            return
        cuts = [0, *(() if whole else self.begins), len(self.lines)]
        for first, last in pairwise(cuts):
            yield _joined(self.lines[first:last])


def read_messages(lines: Iterator[Line], max_bytes: int) -> Iterator[Line]:
    """The messages of a mailbox from its lines; data: None for one of more than `max_bytes`. Raises NoMailbox."""
    message: _Message | None = None
    blank = True
    for line in lines:
        begins = blank and line.data is not None and FROM_LINE.match(line.data) is not None
        if message is None and not begins and (line.data is None or line.data.strip()):
            raise NoMailbox("its first line does not begin with 'From '")
        if message is not None and begins and message.lines is not None and line.offset < message.end:
            message.begins.append(len(message.lines))
        elif begins:
            if message is not None:
                yield from message.pieces(message.ends_at(line.offset))
            message = _Message(line.offset, line.offset)
        if message is not None:
            message.take(line, max_bytes)
        blank = line.data is not None and not line.data
    if message is not None:
        yield from message.pieces(message.ends_at(message.stop) or message.ends_at(message.stop + 1))


def _joined(lines: list[Line]) -> Line:
    """Lines of a message with their ends between them."""
    pieces = [lines[0].data or b""]
    for before, line in pairwise(lines):
        pieces += [b"\n" if line.offset - before.offset - before.length == 1 else b"\r\n", line.data or b""]
    return Line(lines[0].offset, lines[-1].offset + lines[-1].length - lines[0].offset, b"".join(pieces))


def message_of(data: bytes) -> bytes:
    r"""Return a message without the line that it begins with in a mailbox, and without the signs before `From `.

    >>> message_of(b"From a@b Mon Jan  1 10:00:00 2026\nSubject: a\n\n>From the sea")
    b'Subject: a\n\nFrom the sea'
    """
    return ESCAPED.sub(rb"\1", data.partition(b"\n")[2])
