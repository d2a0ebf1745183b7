"""A message of mail (RFC 5322, MIME) to its text, subject, sender and day.

The text is the plain part, or where there is none the HTML part without its tags; of a message with several such parts
one after another, all of them. Attachments and pictures are left out and counted. Quoted lines and signatures stay.

Promises: charsets mean what web pages mean by them, and without one that holds a text is UTF-8 or else windows-1252;
what cannot be decoded becomes U+FFFD and is counted, and so is what the HTML part does not show. A message that nests
parts deeper than Python's parser can follow is a bad record. Cost: about 20 MB/s. Memory: the message three times.
"""

import re
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parseaddr, parsedate_to_datetime
from typing import Any

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.web.charset import REPLACEMENT, decode_html
from corpora.sources.web.own_blocks import ShownText, shown_text
from corpora.sources.web.tree import PageLimits, Refused

LIMITS = PageLimits()
MOST_PARTS = 1_000
FAULTS = (MessageError, ValueError, LookupError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
BLANKS = re.compile(r"\s+")
ENCRYPTED = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """The content of a message. sender: an address; date: YYYY-MM-DD

    left_out: parts; replaced: characters; hidden: blocks that are not shown
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
    """A message from its bytes. Raises BadRecord."""
    try:
        message = message_from_bytes(data)
        texts, left_out = _texts(message)
        return Mail(
            text="\n\n".join(shown.text for shown in texts if shown.text),
            subject=_header(message, "subject"),
            sender=parseaddr(_header(message, "from") or "")[1] or None,
            date=_day(_header(message, "date")),
            left_out=left_out,
            replaced=sum(shown.text.count(REPLACEMENT) for shown in texts),
            hidden=sum(shown.hidden for shown in texts),
            encrypted=message.get_content_type() in ENCRYPTED,
        )
    except FAULTS as error:
        raise BadRecord(f"a message that cannot be read: {type(error).__name__}: {error}"[:300]) from error


def _texts(message: "Message[Any, Any]") -> tuple[list[ShownText], int]:
    """The texts of a message in order, and the number of parts that are none."""
    texts: list[ShownText] = []
    left_out = num_parts = 0
    waiting = [message]
    while waiting:
        part, kind = (waiting.pop(), "")
        kind = part.get_content_type()
        num_parts += 1
        if num_parts > MOST_PARTS:
            raise BadRecord(f"it has over {MOST_PARTS} parts")
        inner = part.get_payload() if part.is_multipart() else None
        if part.get_content_disposition() == "attachment" or (inner is None and not kind.startswith("text/")):
            left_out += 1
        elif isinstance(inner, list):
            chosen = [_best(inner)] if kind == "multipart/alternative" and inner else inner
            waiting += reversed([each for each in chosen if isinstance(each, Message)])
        elif kind in ("text/plain", "text/html"):
            texts.append(_text(part, kind))
        else:
            left_out += 1  # a calendar, a style sheet
    return texts, left_out


def _best(parts: list[Any]) -> Any:
    """Return that of the forms of one text that is plain and holds words; the last that can be read where none is."""
    plain = [part for part in parts if part.get_content_type() == "text/plain" and _text(part, "text/plain").text]
    other = [part for part in parts if part.get_content_type() == "text/html" or part.is_multipart()]
    return (plain or other[-1:] or parts)[0]


def _text(part: "Message[Any, Any]", kind: str) -> ShownText:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = str(part.get_content_charset() or "")
    if kind == "text/html":
        return html_text(decode_html(data, charset).text)
    text = decode_html(data, charset).text.replace("\r\n", "\n").replace("\0", "")
    if str(part.get_param("format") or "").lower() == "flowed":
        text = _unflowed(text, str(part.get_param("delsp") or "").lower() == "yes")
    return ShownText(text.strip())


def html_text(html: str) -> ShownText:
    """All text of a page, with blank lines between its blocks. Raises BadRecord for one that is too large or deep."""
    shown = shown_text(html, LIMITS)
    if isinstance(shown, Refused):
        raise BadRecord(f"its page is refused: {shown.reason} {shown.detail}".strip())
    return shown


def _unflowed(text: str, without_space: bool) -> str:
    """Join the lines that a sender has wrapped (RFC 3676); quoted ones are left as they are.

    >>> _unflowed("The ferry \\nwas late.\\n-- \\nAda", False)
    'The ferry was late.\\n-- \\nAda'
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


def _header(message: "Message[Any, Any]", name: str) -> str | None:
    """A field of the head with its encoded words as text; None where there is none."""
    value = message.get(name)
    if value is None:
        return None
    try:
        pieces = decode_header(str(value) if "\ufffd" not in str(value) else _raw(message, name))
    except (HeaderParseError, ValueError, RecursionError):
        pieces = [(str(value), None)]
    text = "".join(piece if isinstance(piece, str) else _decoded(piece, charset) for piece, charset in pieces)
    return BLANKS.sub(" ", text.replace("\0", "")).strip() or None


def _raw(message: "Message[Any, Any]", name: str) -> str:
    """A field whose bytes are beyond ASCII without being encoded, as UTF-8 or else windows-1252."""
    raw = next(str(value) for key, value in message.raw_items() if key.lower() == name)
    return decode_html(raw.encode("utf-8", "surrogateescape")).text


def _decoded(piece: bytes, charset: str | None) -> str:
    """An encoded word's bytes as text; `decode_header` gives plain ones as Latin-1."""
    if charset is None:
        return piece.decode("raw-unicode-escape", "replace")
    return decode_html(piece, charset.partition("*")[0]).text


def _day(text: str | None) -> str | None:
    """The day of a date, as its sender has it; None for what is none."""
    try:
        return parsedate_to_datetime(text).date().isoformat() if text else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
