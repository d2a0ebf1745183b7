"""Documents of Word and PDF: what their readers see is read, and hostile files end as counted drops."""

import io
import zipfile
from pathlib import Path

import pytest
from source_reading import read

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.contract import RawFile
from corpora.sources.files import source as source_module
from corpora.sources.files.office import pdf as pdf_module
from corpora.sources.files.office.docx_pptx import read_docx
from corpora.sources.files.office.package import LargeDocument, LockedDocument
from corpora.sources.files.office.pdf import build_paragraphs, can_read_pdf, read_pdf
from corpora.sources.files.source import FilesSource
from corpora.sources.passed_over import FileCounts, FileGroup
from flows.run.inputs.unread_files import describe_unread

MOST = 5_000_000
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
needs_pdf = pytest.mark.skipif(not can_read_pdf(), reason="the extra `documents` is not installed: make develop")


def docx(body: str, **parts: str) -> bytes:
    """A file as Word writes it, of a body in XML; other parts by their names in the folder word."""
    held = {"word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'}
    held |= {f"word/{name}.xml": text for name, text in parts.items() if name != "core"}
    held |= {"docProps/core.xml": parts["core"]} if "core" in parts else {}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in held.items():
            archive.writestr(name, text)
    return stream.getvalue()


def p(text: str, style: str = "") -> str:
    styled = f'<w:pPr><w:pStyle w:val="{style}"/><w:tabs><w:tab w:pos="9"/></w:tabs></w:pPr>' if style else ""
    return f"<w:p>{styled}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_a_word_document_is_read_as_its_reader_sees_it() -> None:
    """Fails if runs are parted, revisions or controls are lost, or what is deleted or counted twice is there."""
    body = "".join(
        (
            p("Lease of a boat house", "Title"),
            p("1 Parties\t3", "TOC1"),
            (
                "<w:p><w:r><w:t>The </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space='preserve'>lessor</w:t></w:r>"
                "<w:ins><w:r><w:t xml:space='preserve'> and owner</w:t></w:r></w:ins>"
                "<w:del><w:r><w:delText> or agent</w:delText><w:t>gone</w:t></w:r></w:del>"
                "<w:sdt><w:sdtContent><w:r><w:t xml:space='preserve'> lets</w:t></w:r></w:sdtContent></w:sdt>"
                "<w:r><w:tab/><w:t>it</w:t><w:noBreakHyphen/><w:t>self</w:t><w:br/><w:t>today.</w:t></w:r></w:p>"
            ),
            (
                f"<w:tbl><w:tr><w:tc>{p('Rent')}</w:tc><w:tc>{p('12')}{p('marks')}</w:tc></w:tr>"
                f"<w:tr><w:tc>{p('')}</w:tc><w:tc><w:tbl><w:tr><w:tc>{p('a')}</w:tc><w:tc>{p('b')}</w:tc></w:tr></w:tbl>"
                "</w:tc></w:tr></w:tbl>"
            ),
            "<w:p><w:r><w:fldChar/><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>Signed&amp;sealed</w:t></w:r></w:p>",
            "<w:p><w:r><w:t>Outer</w:t><w:pict>" + p("Box") + "</w:pict></w:r></w:p>",
        )
    )
    kept = f"<w:footnote>{p('A note.')}</w:footnote></w:footnotes>"
    notes = f'<w:footnotes xmlns:w="{W}"><w:footnote w:type="separator">{p("--")}</w:footnote>{kept}'
    core = '<c xmlns:d="x"><d:title>The  lease</d:title><d:created>2026-11-02T10:00:00Z</d:created></c>'
    found = read_docx(docx(body, footnotes=notes, core=core), MOST)
    assert list(found.paragraphs) == [
        "Lease of a boat house",
        "The lessor and owner lets\tit-self\ntoday.",
        "Rent\t12 marks",
        "a\tb",
        "Signed&sealed",
        "Box",
        "Outer",
        "A note.",
    ]
    assert (found.title, found.date) == ("The lease", "2026-11-02")


def damaged_docx(name: str) -> bytes:
    good = docx(p("The ferry was late."))
    entity = f'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><w:document xmlns:w="{W}">&x;</w:document>'
    return {
        "no zip": b"no zip",
        "cut": good[:200],
        "no document": docx("").replace(b"document.xml", b"documenx.xml"),
        "no XML": docx("<w:p>"),
        "entity": docx("", document=entity),
        "deep": docx("<w:p>" * 3000 + "</w:p>" * 3000),
    }[name]


@pytest.mark.parametrize("name", ["no zip", "cut", "no document", "no XML", "entity", "deep"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_damaged_document_is_a_bad_record(name: str) -> None:
    """Fails if a file is read for what it is not, an entity is resolved, or another error comes through."""
    with pytest.raises(BadRecord):
        read_docx(damaged_docx(name), MOST)


def test_bounds_and_locks_of_documents() -> None:
    """Fails if a small file may unpack to any size, or an encrypted one counts as damaged."""
    bomb = docx("<w:p/>" * 900_000)
    assert len(bomb) < 50_000
    with pytest.raises(LargeDocument):
        read_docx(bomb, MOST)
    with pytest.raises(LockedDocument):
        read_docx(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500), MOST)


def test_lines_of_pages_become_paragraphs() -> None:
    """Fails if running titles stay, a paragraph ends with its page, or lists and headings run together."""
    page = "Guide to the ferry, release {n}\r\n{body}\r\nChapter {n}. Harbours {n}"
    first = (
        "1 The harbour\r\nThe ferry was late on that day, for there was fog in the har\ufffebour, and\r\non the sea.",
        "• One boat was lost\r\n• Another came",
        "Nobody knew how long it would take, so all who had come to see it",
    )
    bodies = [
        "\r\n".join(first),
        "went home over the well-\r\nknown hill behind the church.\r\n2 The sea . . . . . . . . . . . . 17",
        "Such was the well-known end of it.",
    ]
    assert build_paragraphs([page.format(n=n, body=body) for n, body in enumerate(bodies, 1)]) == [
        "1 The harbour",
        "The ferry was late on that day, for there was fog in the harbour, and on the sea.",
        "• One boat was lost",
        "• Another came",
        f"{first[2]} went home over the well-known hill behind the church.",
        "Such was the well-known end of it.",
    ]


def pdf(texts: list[str], **said: str) -> bytes:
    """A PDF with one text a page."""
    import matplotlib as mpl
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure

    stream = io.BytesIO()
    with mpl.rc_context({"pdf.fonttype": 42}), PdfPages(stream, metadata=said) as pages:
        for text in texts:
            figure = Figure(figsize=(8, 4))
            figure.text(0.05, 0.9, text, va="top")
            pages.savefig(figure)
    return stream.getvalue()


@needs_pdf
def test_a_pdf_is_read_with_its_title() -> None:
    """Fails if words lose their spaces, letters beyond ASCII change, or pages come in another order."""
    first = "Zürich\u2019s ferry was late on that day because\nthere was fog in the whole harbour."
    found = read_pdf(pdf([first, "Nobody saw its lights."], Title="Ferry log"), MOST)
    assert " ".join(found.paragraphs) == f"{first} Nobody saw its lights.".replace("\n", " ")
    assert found.title == "Ferry log"


@needs_pdf
def test_damaged_and_large_pdfs() -> None:
    """Fails if a damaged file ends in another error, or a text may have any length."""
    good = pdf(["The ferry was late."])
    for bad in (b"", b"%PDF-1.7\nnothing", good[:40]):
        with pytest.raises(BadRecord):
            read_pdf(bad, MOST)
    with pytest.raises(LargeDocument):
        read_pdf(good, 5)


@needs_pdf
def test_a_folder_of_documents_is_a_source(tmp_path: Path) -> None:
    """Fails if a format is not known by its ending, a drop is not counted as what it is, or raw bytes are lost."""
    (tmp_path / "a.docx").write_bytes(docx(p("The first paragraph.") + p("The second.")))
    (tmp_path / "b.pdf").write_bytes(pdf(["The ferry was late."]))
    (tmp_path / "c.PDF").write_bytes(pdf([""]))
    (tmp_path / "d.docx").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500))
    (tmp_path / "e.docx").write_bytes(b"no zip")
    source = FilesSource(name="own", path=str(tmp_path))
    found = read(source)
    assert [record.text for record in found[:2]] == ["The first paragraph.\n\nThe second.", "The ferry was late."]
    drops = [(record.drop.reason, record.drop.damaged) for record in found[2:] if record.drop]
    assert drops == [("empty", False), ("encrypted", False), ("damaged", True)]
    assert source.raw_record(tmp_path / "b.pdf", found[1].locator) == (tmp_path / "b.pdf").read_bytes()


def test_the_reader_of_pdf_is_named_where_there_are_some() -> None:
    """Fails if another version of it would go unnoticed, or sources without PDF are built again for it."""
    source = FilesSource(name="own", path="x")
    files = [RawFile(name=name, sha256="", size_bytes=1, path="") for name in ("a.docx", "b.pdf", "c.md.gz")]
    assert (source.libraries_of(files[:1]), source.libraries_of(files[:2])) == ((), ("pypdfium2",))
    assert source.libraries_of(files[2:]) == ("markdown-it-py",)


def test_without_the_extra_a_pdf_is_passed_over_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a folder with a PDF cannot be read without the extra, or nothing says what to do."""
    monkeypatch.setattr(pdf_module, "LIBRARY", "no_such_library")
    (tmp_path / "a.txt").write_text("The ferry.")
    (tmp_path / "b.pdf").write_bytes(b"%PDF")
    assert [name for name, _ in FilesSource(name="own", path=str(tmp_path)).files()] == ["a.txt"]
    with pytest.raises(source_module.InputError, match="make install"):
        FilesSource(name="own", path=str(tmp_path / "b.pdf")).files()
    passed = FileCounts(num_read=1, passed_over=(FileGroup(kind=".pdf", number=1, names=("b.pdf",)),))
    assert describe_unread({"own": passed}, "text")[1].startswith("own: PDF is read with the extra `documents`: `make")
