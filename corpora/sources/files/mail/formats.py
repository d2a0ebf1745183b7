"""Mail as formats of the kind "files": a `.eml` is a record, and so is each message of a mailbox.

Promises: a record has the subject as its title, the sender's address as its group, and the day; how many attachments
were left out is in its `meta`. Costs and memory: those of `message.py` and `mailbox.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, refusing_damage
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.raw_files import open_raw, read_again, read_lines
from corpora.sources.contract import (
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    damaged,
    too_large,
    unpacked_place,
    whole_file,
)
from corpora.sources.files.formats import WholeFile, meta_of, record_of
from corpora.sources.files.mail.mailbox import NoMailbox, message_of, read_messages
from corpora.sources.files.mail.message import read_mail


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFile(WholeFile):
    """A file is a message."""

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """The record of a message. Raises BadRecord."""
        return mail_record(data, message_of(data) if data.startswith(b"From ") else data, locator, tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxFile:
    """A file is a mailbox, and each message of it a record."""

    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """The whole file."""
        return [whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each message. Raises InputError for a file that cannot be read to its end or is no mailbox."""
        path, file = raw_path(piece.file.path), piece.file
        with open_raw(path) as stream, refusing_damage(path):
            lines = read_lines(stream, 0, None, self.max_record_bytes)
            try:
                for message in read_messages(lines, self.max_record_bytes):
                    tally.records += 1
                    locator = unpacked_place(file, message.offset, message.length)
                    if message.data is None:
                        yield too_large(locator, self.max_record_bytes)
                        continue
                    try:
                        yield mail_record(message.data, message_of(message.data), locator, tally)
                    except BadRecord as error:
                        yield damaged(locator, message.data, error)
            except NoMailbox as error:
                raise InputError(f"{path} is no mailbox: {error}. Rename it, or take it out of `path`.") from error

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a message, with the line that it begins with."""
        return read_again(file, locator.offset, locator.length)


def mail_record(raw: bytes, data: bytes, locator: Locator, tally: Tally) -> Record:
    """The record of a message. raw: as its file has it. Raises BadRecord."""
    if drop := tally.enter(locator):
        return Record(locator=locator, text="", raw=raw, drop=drop)
    mail = read_mail(data)
    facts = {"title": mail.subject, "date": mail.date, "group": mail.sender}
    facts["meta"] = meta_of(attachments=mail.left_out, replaced=mail.replaced, hidden=mail.hidden)
    if mail.encrypted and not mail.text.strip():
        return Record(locator=locator, text="", raw=raw, title=mail.subject, drop=Drop("encrypted", "S/MIME or PGP"))
    return record_of(locator, raw, {"text": mail.text, **facts})
