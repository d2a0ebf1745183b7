"""Mail: the text, subject, sender and day of messages, and mailboxes of every kind cut where they must be."""
# ruff: noqa: RUF001 - signs that people write

import mailbox
from email.message import EmailMessage
from pathlib import Path

import pytest
from office_files import mail
from source_reading import read, read_and_find

from corpora.errors import InputError
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.mail import read_mail
from corpora.sources.files.source import FilesSource

HEAD = b"From: a@example.org\nDate: Mon, 02 Nov 2026 10:00:00 +0100\nSubject: "


def test_a_message_is_its_plain_text(tmp_path: Path) -> None:
    """Fails if encoded words, a charset or the parts of a message come out wrong."""
    letter = mail("Die Fähre – спасибо, 渡し舟.\n\n> quoted")
    letter.replace_header("Subject", "Zürich: 渡し舟 kam später als sonst, und niemand wusste warum")
    (tmp_path / "a.eml").write_bytes(letter.as_bytes())
    (record,) = read_and_find(FilesSource(name="own", path=str(tmp_path)))
    assert record.text == "Die Fähre – спасибо, 渡し舟.\n\n> quoted"
    assert (record.title, record.group) == (str(letter["Subject"]), "ada@example.org")
    assert (record.date, record.meta) == ("2026-11-02", '{"attachments": 1}')


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        ("text/plain; charset=shift_jis", "渡し舟".encode("shift_jis"), "渡し舟"),
        ("text/plain; charset=gb2312", "镕基".encode("gb18030"), "镕基"),
        ("text/plain; charset=no-such", "Zürich".encode(), "Zürich"),
        ("text/plain", "Zürich".encode("cp1252"), "Zürich"),
        (
            'text/html; charset="utf-8"',
            "<style>a</style><p>Zürich</p><p>late<br>again</p>".encode(),
            "Zürich\n\nlate\nagain",
        ),
        ("text/plain; format=flowed", b"The ferry \nwas late.\n> no \n> more", "The ferry was late.\n> no \n> more"),
        ("image/png", b"\x89PNG", ""),
    ],
)
def test_charsets_and_forms(head: str, body: bytes, text: str) -> None:
    encoded = HEAD + b"a\nContent-Type: " + head.encode() + b"\nContent-Transfer-Encoding: 8bit\n\n" + body
    assert read_mail(encoded).text == text


def test_the_best_of_several_forms_is_read_and_attachments_are_counted() -> None:
    """Fails if an empty plain part hides the HTML, a text is there twice, or an attached text is part of it."""
    message = EmailMessage()
    message.set_content("\n")
    message.add_alternative("<p>Only here.</p>", subtype="html")
    message.add_attachment("A file.", filename="a.txt")
    outer = EmailMessage()
    outer.set_content("See below.")
    outer.add_attachment(message, disposition="inline")
    found = read_mail(outer.as_bytes())
    assert (found.text, found.left_out) == ("See below.\n\nOnly here.", 1)


def test_a_message_that_nests_too_deep_is_a_bad_record() -> None:
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3000))
    with pytest.raises(BadRecord):
        read_mail(parts)


BODIES = ["One.", "Two.\n\nFrom the sea came fog.\nFrom afar", "Three."]


def test_a_mailbox_is_cut_as_python_cuts_it(tmp_path: Path) -> None:
    """Fails if a message is lost, a line that was escaped stays so, or one is not found again."""
    box = mailbox.mbox(tmp_path / "a.mbox")
    for body in BODIES:
        box.add(HEAD + b"a\n\n" + body.encode())
    box.close()
    (tmp_path / "mbox").write_bytes((tmp_path / "a.mbox").read_bytes().replace(b"\n", b"\r\n"))
    records = read_and_find(FilesSource(name="own", path=str(tmp_path)))
    assert [record.text for record in records] == BODIES * 2
    assert [record.locator.file for record in records] == ["a.mbox"] * 3 + ["mbox"] * 3


@pytest.mark.parametrize("shift", [0, 700, -3])
def test_content_length_is_believed_where_it_is_right(tmp_path: Path, shift: int) -> None:
    """Fails if a line of a text begins a message that it does not, or a wrong length hides one."""
    inner = b"Look:\n\nFrom a@b Mon Jan  1 10:00:00 2026\nis how one begins.\n"
    first = HEAD + b"a\nContent-Length: %d\n\n" % (len(inner) + shift) + inner
    line = b"From a@b Mon Jan  1 10:00:00 2026\n"
    (tmp_path / "a.mbox").write_bytes(line + first + b"\n" + line + HEAD + b"b\n\nTwo.\n")
    titles = [record.title for record in read_and_find(FilesSource(name="own", path=str(tmp_path)))]
    assert titles == (["a", "b"] if shift == 0 else ["a", None, "b"])


def test_large_messages_and_files_that_are_no_mailbox(tmp_path: Path) -> None:
    line = b"From a@b Mon Jan  1 10:00:00 2026\n"
    path = tmp_path / "a.mbox"
    path.write_bytes(line + HEAD + b"a\n\n" + b"long\n" * 1000 + b"\n" + line + HEAD + b"b\n\nTwo.\n")
    records = read(FilesSource(name="own", path=str(path), max_record_bytes=500))
    assert [record.drop and record.drop.reason for record in records] == ["too large", None]
    path.write_bytes(b"Dear all,\n\n")
    with pytest.raises(InputError, match="is no mailbox"):
        read(FilesSource(name="own", path=str(path)))
