"""Files of offices and mail as their programs write them, from parts in XML, and with one part changed."""

import io
import zipfile
from collections.abc import Mapping
from email.message import EmailMessage
from functools import partial

from fuzzing import Whole

RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

PROSE = "The tide came in at noon. The keeper counted seven boats, and nobody knew why one was missing. " * 6


def package(parts: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def relations(**targets: str) -> str:
    """Relations by their ids: a kind and a part, with a colon between them."""
    each = ((id, *target.split(":", 1)) for id, target in targets.items())
    lines = "".join(f'<Relationship Id="{id}" Type="{RELATED}/{kind}" Target="{part}"/>' for id, kind, part in each)
    return f'<Relationships xmlns="{RELATIONS}">{lines}</Relationships>'


def cell(place: str, value: str, kind: str = "n", style: int = 0) -> str:
    """A cell of a sheet. kind: s for a shared text, inlineStr for its own"""
    inner = f"<is><t>{value}</t></is>" if kind == "inlineStr" else f"<v>{value}</v>"
    return f'<c r="{place}" t="{kind}" s="{style}">{inner}</c>'


def sheet(*rows: str) -> str:
    """A sheet, each row by its cells; "" for a row that is not there."""
    each = "".join(f'<row r="{number}">{cells}</row>' for number, cells in enumerate(rows, 1) if cells)
    return f'<worksheet xmlns="{SHEET}"><sheetData>{each}</sheetData></worksheet>'


def xlsx_parts(*sheets: str, shared: tuple[str, ...] = (), formats: str = "", book: str = "") -> dict[str, str]:
    """The parts of a workbook. formats: of cells, as `numFmtId`s after the general one, split by spaces"""
    names = "".join(f'<sheet name="Sheet {n}" sheetId="{n}" r:id="s{n}"/>' for n in range(1, len(sheets) + 1))
    held = {f"xl/worksheets/sheet{n}.xml": data for n, data in enumerate(sheets, 1)}
    related = {f"s{n}": f"worksheet:worksheets/sheet{n}.xml" for n in range(1, len(sheets) + 1)}
    styles = "".join(f'<xf numFmtId="{id}"/>' for id in ["0", *formats.split()])
    custom = '<numFmts><numFmt numFmtId="170" formatCode="dd/mm/yyyy&quot; h&quot;"/></numFmts>'
    return {
        "_rels/.rels": relations(a="officeDocument:xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATED}">{book}<sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            **related, t="sharedStrings:sharedStrings.xml", f="styles:/xl/styles.xml"
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{"".join(f"<si>{text}</si>" for text in shared)}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}">{custom}<cellXfs>{styles}</cellXfs></styleSheet>',
        **held,
    }


def shape(*paragraphs: str, kind: str = "body") -> str:
    """A shape of a slide with texts."""
    texts = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in paragraphs)
    return f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:txBody>{texts}</p:txBody></p:sp>'


def slide(*shapes: str, tag: str = "sld") -> str:
    """A slide, or the notes of one."""
    return f'<p:{tag} xmlns:p="{SLIDE}" xmlns:a="{DRAWING}"><p:cSld>{"".join(shapes)}</p:cSld></p:{tag}>'


def pptx_parts(slides: Mapping[str, str], notes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The parts of a presentation, its slides by the names of their files, in order. notes: by those of their slides"""
    order = "".join(f'<p:sldId id="{n}" r:id="{name}"/>' for n, name in enumerate(slides, 256))
    main = f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{RELATED}"><p:sldIdLst>{order}</p:sldIdLst></p:presentation>'
    return {
        "_rels/.rels": relations(a="officeDocument:ppt/presentation.xml"),
        "ppt/presentation.xml": main,
        "ppt/_rels/presentation.xml.rels": relations(**{name: f"slide:slides/{name}.xml" for name in slides}),
        **{f"ppt/slides/{name}.xml": data for name, data in slides.items()},
        **{f"ppt/slides/_rels/{name}.xml.rels": relations(n=f"notesSlide:../notes/{name}.xml") for name in notes or {}},
        **{f"ppt/notes/{name}.xml": data for name, data in (notes or {}).items()},
    }


def mail(text: str, **fields: str) -> EmailMessage:
    """A message with a plain text, an HTML text and a picture."""
    message = EmailMessage()
    message["Subject"], message["From"] = "The ferry", "Ada <ada@example.org>"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    for name, value in fields.items():
        message[name] = value
    message.set_content(text)
    message.add_alternative(f"<p>{text}</p>", subtype="html")
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="ferry.png")
    for number, part in enumerate(part for part in message.walk() if part.is_multipart()):
        part.set_boundary(f"part-{number}")
    return message


def changed_parts(parts: Mapping[str, str]) -> tuple[Whole, ...]:
    """Each part of a package, to be damaged in a zip that is whole."""
    return tuple(Whole(data.encode(), partial(_with, parts, name)) for name, data in parts.items())


def _with(parts: Mapping[str, str], name: str, data: bytes) -> bytes:
    return package({**parts, name: data})


def recoded(to: str, data: bytes) -> bytes:
    """A text of UTF-8 in another encoding."""
    return data.decode(errors="replace").encode(to, "replace")


# Whole files to damage.

SHEETS = xlsx_parts(
    sheet(
        cell("A1", "0", "s") + cell("B1", "when", "inlineStr"), cell("A2", "1", "s") + cell("B2", "46328.5", style=1)
    ),
    sheet(cell("A1", "text", "str") + cell("C1", "n", "str"), cell("A2", PROSE, "inlineStr") + cell("C2", "7")),
    shared=("<t>text</t>", f"<r><t>{PROSE}</t></r><rPh><t>a</t></rPh>"),
    formats="14 170",
)
BODY = f"<w:body><w:p><w:r><w:t>{PROSE}</w:t></w:r></w:p></w:body>"
WORDS = {"word/document.xml": f'<w:document xmlns:w="{WORD}">{BODY}</w:document>'}
LEGACY = "番号,text\n" + "1,渡し舟は霧のために遅れた。みんなは港で待っていた。\n" * 9
SLIDES = pptx_parts(
    {"two": slide(shape("A title", kind="title"), shape(PROSE)), "one": slide(shape("1", kind="sldNum"))},
    notes={"two": slide(shape("A note."), tag="notes")},
)
LETTER = mail(PROSE).as_bytes()
MAILBOX = b"".join(b"From a@b Mon Jan  1 10:00:00 2026\n" + LETTER + b"\n" for _ in range(2))
