"""Text from documentation: each paragraph of prose once, from pages, manuals and plain text."""

import gzip
from pathlib import Path

from benchmarks.debian_text import html_text, manual_text, new_paragraphs, write_texts

PROSE = "A keeper of the light walks down to the harbour in the evening to look for the boats of the island."
OTHER = "The measured stones of the old market were carried to the village before the winter had begun again."


def test_each_paragraph_once(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.html").write_text(
        f"<html><head><title>x</title></head><body><nav>{OTHER}</nav><p>{PROSE}</p></body></html>"
    )
    (source / "b.txt").write_text(f"{PROSE}\n\nshort\n\n{OTHER}\n")
    (source / "c.txt").write_text(f"{PROSE}\n")
    (source / "d.1.gz").write_bytes(
        gzip.compress(b".TH D 1\nAll that \\fBthis\\fR manual says of the harbour and its many boats is here.\n")
    )
    (source / "image.png").write_bytes(b"\x89PNG")
    written = write_texts(source, tmp_path / "target")
    texts = sorted(path.read_text() for path in (tmp_path / "target").iterdir())
    assert texts == sorted(
        [f"{PROSE}\n", f"{OTHER}\n", "All that this manual says of the harbour and its many boats is here.\n"]
    )
    assert written == sum(map(len, texts))


def test_what_is_not_prose_is_left_out() -> None:
    numbers = "0x10 = 17; 0x20 = 33; 0x30 = 49; 0x40 = 65; 0x50 = 81; 0x60 = 97; 0x70 = 113"
    assert list(new_paragraphs(f"menu\n\n{numbers}\n\n{PROSE}\n\n{'word ' * 5000}\n\n{PROSE}", set())) == [PROSE]


def test_blocks_of_a_page_are_paragraphs() -> None:
    page = b"<body><h1>Title</h1><p>One <b>bold</b> word<script>x()</script>.</p><ul><li>item</li></ul></body>"
    assert [line for line in html_text(page).splitlines() if line] == ["Title", "One bold word.", "item"]
    assert html_text(b"") == html_text(b"<!-- nothing -->") == ""


def test_a_manual_without_its_marks() -> None:
    page = b".SH NAME\n.B list\nshows \\fIfiles\\fP \\- and\n.IR more (1)\n"
    assert manual_text(page).split() == ["list", "shows", "files", "-", "and", "more", "(1)"]


def test_a_control_character_ends_no_page() -> None:
    assert html_text(b"<html><body><p>one&#1;two</p>\x02 three</body></html>").split() == ["one", "two", "three"]
