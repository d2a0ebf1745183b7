"""Mail as formats of the kind "files": a `.eml` is a record, and so is each message of a mailbox.

Promises: a record has the subject as its title, the sender's address as its group, and the day; how many attachments
were left out is in its `meta`. Costs and memory: those of messages and mailboxes (below).

A mailbox in the format mbox, cut into its messages.

A message begins at a line `From ADDRESS ... TIME ...` at the file's beginning or after a blank line. Such a line inside
a message begins none if the message's `Content-Length` reaches beyond it and ends where the next one begins. (mboxo,
mboxrd, mboxcl and mboxcl2, RFC 4155.)

Promises: a message of any length is passed over in bounded memory. A mailbox that does not begin with such a line is
refused. Cost: one pass over the lines, about 100 MB/s. Memory: one message of at most `max_bytes`.

A message of mail (RFC 5322, MIME) to its text, subject, sender and day.

The text is the plain part, or if there is none the HTML part without its tags; of a message with several such parts
one after another, all of them. Attachments and pictures are left out and counted. Quoted lines and signatures stay.

Promises: charsets mean what web pages mean by them, and without one that holds a text is UTF-8 or else windows-1252;
what cannot be decoded becomes U+FFFD and is counted, and so is what the HTML part does not show. A message that nests
parts deeper than Python's parser can follow is a bad record. Cost: about 20 MB/s. Memory: the message three times.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parseaddr, parsedate_to_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import Line, open_raw, read_again, read_lines
from corpora.sources.contract import (
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    build_locator,
    drop_damaged,
    drop_too_large,
    slice_whole_file,
)
from corpora.sources.files.formats import WholeFile, build_record, format_meta
from corpora.sources.web.charset import REPLACEMENT, decode_html
from corpora.sources.web.own_blocks import ShownText, extract_shown_text
from corpora.sources.web.tree import PageLimits, Refused

FROM_LINE = re.compile(rb"From \S.*\d\d?:\d\d|From \S+\s*$|From [^\s@]+@\S+\s")
LENGTH = re.compile(rb"content-length:\s*(\d{1,12})\s*$", re.IGNORECASE)
ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)


class NotAMailbox(ValueError):
    """Raised if the first line of a mailbox file does not begin a message."""


@dataclass(slots=True)
class _Message:
    """A message of a mailbox that is being read.

    start:   byte offset of its first line
    stop:    byte offset after its last line so far
    lines:   lines read so far, or None if the message is too large
    begins:  indices in `lines` at which another message may begin
    length:  length of the body in bytes according to the message header, or -1 if it is not stated
    end:     byte offset after this body, or -1 if it is unknown
    in_head: True until the first blank line
    """

    start: int
    stop: int
    lines: list[Line] | None = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    length: int = -1
    end: int = -1
    in_head: bool = True

    def add_line(self, line: Line, max_bytes: int) -> None:
        """Add the next line to the message. If it then exceeds `max_bytes`, all its lines are discarded."""
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

    def can_end_at(self, offset: int) -> bool:
        """Return True if the body, according to its stated length, ends at or up to two bytes before a byte offset."""
        return 0 <= self.end <= offset <= self.end + 2

    def iter_pieces(self, whole: bool) -> Iterator[Line]:
        """Yield the message as one `Line`. Its data is None if the message is too large.

        If `whole` is False, the stated length is wrong. The message is then cut wherever another one may begin.
        """
        if self.lines is None:
            yield Line(self.start, self.stop - self.start, None)
            return
        cuts = [0, *(() if whole else self.begins), len(self.lines)]
        for first, last in pairwise(cuts):
            yield _join_lines(self.lines[first:last])


def read_messages(lines: Iterator[Line], max_bytes: int) -> Iterator[Line]:
    """Yield the messages of a mailbox, each as one `Line` that includes its separator line `From ...`.

    Args:
        lines: The lines of the mailbox.
        max_bytes: Maximum size of a message in bytes. The `data` of a larger message is None.

    Raises:
        NotAMailbox: During iteration, if the first nonblank line does not begin a message.
    """
    message: _Message | None = None
    blank = True
    for line in lines:
        begins = blank and line.data is not None and FROM_LINE.match(line.data) is not None
        if message is None and not begins and (line.data is None or line.data.strip()):
            raise NotAMailbox("its first line does not begin with 'From '")
        if message is not None and begins and message.lines is not None and line.offset < message.end:
            message.begins.append(len(message.lines))
        elif begins:
            if message is not None:
                yield from message.iter_pieces(message.can_end_at(line.offset))
            message = _Message(line.offset, line.offset)
        if message is not None:
            message.add_line(line, max_bytes)
        blank = line.data is not None and not line.data
    if message is not None:
        yield from message.iter_pieces(message.can_end_at(message.stop) or message.can_end_at(message.stop + 1))


def _join_lines(lines: list[Line]) -> Line:
    """Join the lines of a message into one `Line`, keeping the line breaks between them."""
    pieces = [lines[0].data or b""]
    for before, line in pairwise(lines):
        pieces += [b"\n" if line.offset - before.offset - before.length == 1 else b"\r\n", line.data or b""]
    return Line(lines[0].offset, lines[-1].offset + lines[-1].length - lines[0].offset, b"".join(pieces))


def strip_mbox_framing(data: bytes) -> bytes:
    r"""Remove the mbox separator line before a message, and the ">" that escapes `From ` in its body.

    >>> strip_mbox_framing(b"From a@b Mon Jan  1 10:00:00 2026\nSubject: a\n\n>From the sea")
    b'Subject: a\n\nFrom the sea'
    """
    return ESCAPED.sub(rb"\1", data.partition(b"\n")[2])


LIMITS = PageLimits()
MAX_PARTS = 1_000
FAULTS = (MessageError, ValueError, LookupError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
BLANKS = re.compile(r"\s+")
ENCRYPTED = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """The content of a mail message.

    text:      text of all text parts, with blank lines between them
    subject:   the subject, or None
    sender:    address of the sender, or None
    date:      day in the sender's time zone as YYYY-MM-DD, or None
    left_out:  number of parts that are not text, such as attachments
    replaced:  number of characters that could not be decoded
    hidden:    number of blocks that the HTML does not display
    encrypted: True if the whole message is encrypted
    """

    text: str
    subject: str | None = None
    sender: str | None = None
    date: str | None = None
    left_out: int = 0
    replaced: int = 0
    hidden: int = 0
    encrypted: bool = False


def read_mail(data: bytes) -> Mail:
    """Parse the bytes of a mail message into its text, subject, sender and day.

    Raises:
        BadRecord: If Python's parser fails, or the message has more than MAX_PARTS parts.
    """
    try:
        message = message_from_bytes(data)
        texts, left_out = _read_texts(message)
        return Mail(
            text="\n\n".join(shown.text for shown in texts if shown.text),
            subject=_read_header(message, "subject"),
            sender=parseaddr(_read_header(message, "from") or "")[1] or None,
            date=_to_day(_read_header(message, "date")),
            left_out=left_out,
            replaced=sum(shown.text.count(REPLACEMENT) for shown in texts),
            hidden=sum(shown.hidden for shown in texts),
            encrypted=message.get_content_type() in ENCRYPTED,
        )
    except FAULTS as error:
        raise BadRecord(f"a message that cannot be read: {type(error).__name__}: {error}"[:300]) from error


def _read_texts(message: "Message[Any, Any]") -> tuple[list[ShownText], int]:
    """Return the texts of a message in order, and the number of parts that are not text.

    Raises:
        BadRecord: If the message has more than MAX_PARTS parts, or an HTML part cannot be parsed.
    """
    texts: list[ShownText] = []
    left_out = num_parts = 0
    waiting = [message]
    while waiting:
        part, kind = (waiting.pop(), "")
        kind = part.get_content_type()
        num_parts += 1
        if num_parts > MAX_PARTS:
            raise BadRecord(f"it has over {MAX_PARTS} parts")
        inner = part.get_payload() if part.is_multipart() else None
        if part.get_content_disposition() == "attachment" or (inner is None and not kind.startswith("text/")):
            left_out += 1
        elif isinstance(inner, list):
            chosen = [_choose_form(inner)] if kind == "multipart/alternative" and inner else inner
            waiting += reversed([each for each in chosen if isinstance(each, Message)])
        elif kind in ("text/plain", "text/html"):
            texts.append(_read_text(part, kind))
        else:
            left_out += 1  # a calendar, a style sheet
    return texts, left_out


def _choose_form(parts: list[Any]) -> Any:
    """Choose one of the alternative forms of a text: a plain text part with words, or else the last readable part.

    `parts` contains the alternatives. It must not be empty.
    """
    plain = [part for part in parts if part.get_content_type() == "text/plain" and _read_text(part, "text/plain").text]
    other = [part for part in parts if part.get_content_type() == "text/html" or part.is_multipart()]
    return (plain or other[-1:] or parts)[0]


def _read_text(part: "Message[Any, Any]", kind: str) -> ShownText:
    """Return the text of a message part. `kind` is its type, "text/plain" or "text/html".

    Raises:
        BadRecord: If an HTML page is too large or too deeply nested.
    """
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = str(part.get_content_charset() or "")
    if kind == "text/html":
        return read_html(decode_html(data, charset).text)
    text = decode_html(data, charset).text.replace("\r\n", "\n").replace("\0", "")
    if str(part.get_param("format") or "").lower() == "flowed":
        text = _join_flowed(text, str(part.get_param("delsp") or "").lower() == "yes")
    return ShownText(text.strip())


def read_html(html: str) -> ShownText:
    """Extract all displayed text of an HTML page, with blank lines between blocks, and count the hidden blocks.

    Raises:
        BadRecord: If the page is too large or too deeply nested.
    """
    shown = extract_shown_text(html, LIMITS)
    if isinstance(shown, Refused):
        raise BadRecord(f"its page is refused: {shown.reason} {shown.detail}".strip())
    return shown


def _join_flowed(text: str, without_space: bool) -> str:
    r"""Join lines that the sender's mail program wrapped (RFC 3676). Quoted lines stay unchanged.

    `without_space` is True if the space at the end of a wrapped line is not part of the text.

    >>> _join_flowed("The ferry \nwas late.\n-- \nAda", False)
    'The ferry was late.\n-- \nAda'
    """
    lines: list[str] = []
    flows = False
    for line in text.split("\n"):
        line = line.removeprefix(" ") if not line.startswith(">") else line
        if flows and not line.startswith(">") and line != "-- ":
            lines[-1] = (lines[-1][:-1] if without_space else lines[-1]) + line
        else:
            lines.append(line)
        flows = line.endswith(" ") and line != "-- " and not line.startswith(">")
    return "\n".join(lines)


def _read_header(message: "Message[Any, Any]", name: str) -> str | None:
    """Return the header field `name` of a message with its encoded words decoded, or None if it is missing or empty."""
    value = message.get(name)
    if value is None:
        return None
    try:
        pieces = decode_header(str(value) if "\ufffd" not in str(value) else _read_raw_header(message, name))
    except (HeaderParseError, ValueError, RecursionError):
        pieces = [(str(value), None)]
    text = "".join(piece if isinstance(piece, str) else _decode_word(piece, charset) for piece, charset in pieces)
    return BLANKS.sub(" ", text.replace("\0", "")).strip() or None


def _read_raw_header(message: "Message[Any, Any]", name: str) -> str:
    """Return the header field `name`, which must exist. Bytes that are not ASCII are read as UTF-8 or windows-1252."""
    raw = next(str(value) for key, value in message.raw_items() if key.lower() == name)
    return decode_html(raw.encode("utf-8", "surrogateescape")).text


def _decode_word(piece: bytes, charset: str | None) -> str:
    """Decode the bytes of an encoded word in its charset.

    If the charset is None, the bytes are an ordinary word, which `decode_header` returns as Latin-1 bytes.
    """
    if charset is None:
        return piece.decode("raw-unicode-escape", "replace")
    return decode_html(piece, charset.partition("*")[0]).text


def _to_day(text: str | None) -> str | None:
    """Return the day of a mail date in the sender's time zone as YYYY-MM-DD, or None if it is missing or invalid."""
    try:
        return parsedate_to_datetime(text).date().isoformat() if text else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFile(WholeFile):
    """The `.eml` format, in which a file is a message and becomes one record."""

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        The record's text is that of the mail message.

        Args:
            data: All bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.

        Raises:
            BadRecord: If the message cannot be read.
        """
        return build_mail_record(data, strip_mbox_framing(data) if data.startswith(b"From ") else data, locator, tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxFile:
    """The `.mbox` format, in which a file is a mailbox and each message becomes a record."""

    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A mailbox is one slice, since a message can be found only after the messages before it.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each message of a mailbox is a record.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file cannot be read to its end or is not a mailbox.
        """
        path, file = parse_raw_path(piece.file.path), piece.file
        with open_raw(path) as stream, explain_damage(path):
            lines = read_lines(stream, 0, None, self.max_record_bytes)
            try:
                for message in read_messages(lines, self.max_record_bytes):
                    tally.records += 1
                    locator = build_locator(file, message.offset, message.length)
                    if message.data is None:
                        yield drop_too_large(locator, self.max_record_bytes)
                        continue
                    try:
                        yield build_mail_record(message.data, strip_mbox_framing(message.data), locator, tally)
                    except BadRecord as error:
                        yield drop_damaged(locator, message.data, error)
            except NotAMailbox as error:
                raise InputError(f"{path} is no mailbox: {error}. Rename it, or take it out of `path`.") from error

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a message, including its mbox separator line.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_again(file, locator.offset, locator.length)


def build_mail_record(raw: bytes, data: bytes, locator: Locator, tally: Tally) -> Record:
    """Build the record of a message. The record of an encrypted message without readable text is dropped.

    Args:
        raw: The message as it is in the file, used as the record's `raw`.
        data: The message to parse, without mbox framing.
        locator: Location of the message in the raw files.
        tally: Knows which records crashed earlier and must be skipped.

    Raises:
        BadRecord: If the message cannot be read.
    """
    if drop := tally.enter(locator):
        return Record(locator=locator, text="", raw=raw, drop=drop)
    mail = read_mail(data)
    facts = {"title": mail.subject, "date": mail.date, "group": mail.sender}
    facts["meta"] = format_meta(attachments=mail.left_out, replaced=mail.replaced, hidden=mail.hidden)
    if mail.encrypted and not mail.text.strip():
        return Record(locator=locator, text="", raw=raw, title=mail.subject, drop=Drop("encrypted", "S/MIME or PGP"))
    return build_record(locator, raw, {"text": mail.text, **facts})
