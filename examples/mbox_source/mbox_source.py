"""Mail archives: mbox files, one message a record.

Promises: a message begins at a line `From ` at the file's beginning or after a blank line (RFC 4155), and every
message is one record. Lines that answer quotes (`> ...`) are left out unless they are asked for.
Costs: one pass over the lines, and Python's mail parser for each message. Memory: one message of at most
`max_record_bytes`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parseaddr, parsedate_to_datetime
from pathlib import Path
from typing import ClassVar

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.endings import with_packed_endings
from corpora.sources.bytes.faults import explain_damage
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
    find_files,
    select_settings,
    slice_whole_file,
)
from corpora.store.settings import check_range

ENDINGS = with_packed_endings(".mbox")
QUOTED = re.compile(r"^>.*\n?", re.MULTILINE)
ESCAPED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MboxSource:
    """The `[[source]]` table of kind "mbox".

    path:             a file, a folder or a glob: `.mbox`, also `.gz`, `.zst`, `.bz2` or `.xz`
    quotes:           keep the lines that a message quotes of another
    max_record_bytes: a longer message is dropped
    """

    kind: ClassVar[str] = "mbox"
    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("mbox-source-example",)

    name: str
    path: str
    quotes: bool = False
    max_record_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)

    def settings(self) -> dict[str, Json]:
        """Return the settings that determine the bytes of its documents."""
        return select_settings(self)

    def files(self) -> list[tuple[str, Path]]:
        """Return the archives, sorted by name. Raises InputError where there are none."""
        wanted = "an .mbox file, a folder of them, or a glob"
        return find_files(self.name, self.path, lambda name: name.lower().endswith(ENDINGS), wanted)

    def slices(self, file: RawFile) -> list[Slice]:
        """The whole file."""
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the messages in order. Raises InputError for a file that cannot be read to its end, or is no mbox."""
        file = piece.file
        with open_raw(Path(file.path)) as stream, explain_damage(Path(file.path)):
            lines = read_lines(stream, 0, None, self.max_record_bytes)
            for message in join_messages(lines, self.max_record_bytes, file.path, tally):
                yield self.message(message, file)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a message, its `From ` line included."""
        return read_again(file, locator.offset, locator.length)

    def message(self, line: Line, file: RawFile) -> Record:
        """Return the record of a message's bytes."""
        locator = build_locator(file, line.offset, line.length)
        if line.data is None:
            return drop_too_large(locator, self.max_record_bytes)
        try:
            return self._read(line, locator)
        except (
            AttributeError,
            IndexError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:  # what Python's parser of mail raises
            return drop_damaged(locator, line.data, f"a message that cannot be read: {error}")

    def _read(self, line: Line, locator: Locator) -> Record:
        assert line.data is not None
        mail = message_from_bytes(ESCAPED_FROM.sub(rb"\1", line.data.partition(b"\n")[2]), policy=policy.default)
        text, drop = _text(mail)
        text = text if self.quotes else QUOTED.sub("", text)
        return Record(
            locator=locator,
            text=text,
            key=str(mail["message-id"] or "").strip() or None,
            raw=line.data,
            title=str(mail["subject"] or "").strip() or None,
            date=_date(str(mail["date"] or "")),
            group=parseaddr(str(mail["from"] or ""))[1] or None,
            drop=drop or (None if text.strip() else Drop("empty")),
        )


def join_messages(lines: Iterator[Line], max_bytes: int, path: str, tally: Tally) -> Iterator[Line]:
    """The messages of a file, counted by their first lines; data: None where there are more than `max_bytes`."""
    held: list[bytes] | None = None
    start = stop = 0
    blank = True
    for line in lines:
        begins = blank and line.data is not None and line.data.startswith(b"From ")
        if line.offset == 0 and not begins:
            raise InputError(f"{path} is no mbox: its first line does not begin with 'From '. Take it out of `path`.")
        if begins:
            if stop > start:
                yield Line(start, stop - start, None if held is None else b"".join(held))
            tally.records += 1
            held, start, stop = [], line.offset, line.offset
        gap = b"\n" * (line.offset - stop) if line.offset - stop < 2 else b"\r\n"
        stop = line.offset + line.length
        if line.data is None or stop - start > max_bytes:
            held = None
        elif held is not None:
            held += [gap, line.data]
        blank = line.data is not None and not line.data
    if stop > start:
        yield Line(start, stop - start, None if held is None else b"".join(held))


def _text(mail: EmailMessage) -> tuple[str, Drop | None]:
    """Return the plain text of a message, or why it has none."""
    body = mail.get_body(("plain",))
    if body is None:
        return "", Drop("no plain text", mail.get_content_type())
    try:
        return str(body.get_content()), None
    except LookupError as error:
        return "", Drop("damaged", str(error), damaged=True)


def _date(text: str) -> str | None:
    try:
        return parsedate_to_datetime(text).date().isoformat()
    except ValueError:
        return None
