"""The columns of the table of things and readers: a cell's markup made into a whole file, and read by its source."""

import io
import json
import tempfile
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from html import escape
from pathlib import Path
from typing import NamedTuple

from office_files import (
    DRAWING,
    RELATED,
    SHEET,
    SLIDE,
    WORD,
    package,
    pptx_parts,
    relations,
)
from source_reading import read

from corpora.judging.steps.clean import CleanSettings, clean_text
from corpora.sources.contract import Record, Source
from corpora.sources.files.source import FilesSource
from corpora.sources.wiki.source import WikipediaSource

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
MATHML = "http://www.w3.org/1998/Math/MathML"
COMPATIBLE = "http://schemas.openxmlformats.org/markup-compatibility/2006"
OFFICE_2010 = "http://schemas.microsoft.com/office/drawing/2010/main"
BEFORE = (
    "The harbour was dredged twice in that decade, and each time the pilots wrote down what the sea had brought in."
)
AFTER = (
    "What was left of the old pier became a walk with benches, from which one sees the light at the mouth of the river."
)
CLEAN = CleanSettings()


class ReadCell(NamedTuple):
    """What came of a cell: its texts after cleaning, one for each record, and why records were dropped.

    hidden: how many pieces of text the records say were not shown
    """

    texts: list[str]
    drops: list[str]
    hidden: int


def read_cell(column: str, given: str, parts: Mapping[str, str]) -> ReadCell:
    """Read a cell. parts: of its file, besides the main one"""
    name, make = COLUMNS[column]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, parts.get("name", name))
        data = make(given, parts)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        source: Source = FilesSource(name="own", path=folder)
        if column == "wiki":
            source = WikipediaSource(name="wiki", path=folder)
        return _of_records(read(source), column)


def _of_records(records: list[Record], column: str) -> ReadCell:
    texts = [clean_text(record.text, CLEAN) for record in records if not record.drop]
    hidden = sum(json.loads(record.meta or "{}").get("hidden", 0) for record in records)
    if column == "page":
        texts = [text.replace(BEFORE, "").replace(AFTER, "").strip("\n") for text in texts]
    return ReadCell(texts, [record.drop.reason for record in records if record.drop], hidden)


def _page(given: str, parts: Mapping[str, str]) -> str:
    body = f"<p>{BEFORE}</p>{given}<p>{AFTER}</p>"
    head = f"<meta charset=utf-8><title>Piers</title>{parts.get('head', '')}"
    main = parts.get("main", "<article>{}</article>").replace("{}", body)
    return f"<!doctype html><html><head>{head}</head><body><main>{main}</main></body></html>"


def _wiki(given: str, parts: Mapping[str, str]) -> str:
    return (
        '<mediawiki xml:lang="en"><siteinfo><dbname>enwiki</dbname><namespaces><namespace key="0"/>'
        '<namespace key="6">File</namespace></namespaces></siteinfo><page><title>Piers</title><ns>0</ns><id>1</id>'
        "<revision><id>2</id><timestamp>2026-10-01T00:00:00Z</timestamp><model>wikitext</model>"
        f"<text>{escape(given)}</text></revision></page></mediawiki>"
    )


def _epub(given: str, parts: Mapping[str, str]) -> bytes:
    page = parts.get("page") or (
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head><title>x</title></head><body>{given}</body></html>"
    )
    container = '<container><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>'
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" '
        'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'
    )
    return package({"META-INF/container.xml": container, "a.opf": book, "a.xhtml": page})


def _docx(given: str, parts: Mapping[str, str]) -> bytes:
    spaces = f'xmlns:w="{WORD}" xmlns:m="{MATH}" xmlns:mc="{COMPATIBLE}"'
    held = {"word/document.xml": f"<w:document {spaces}><w:body>{given}</w:body></w:document>"}
    for name in ("styles", "footnotes", "endnotes"):
        if name in parts:
            held[f"word/{name}.xml"] = f"<w:{name} {spaces}>{parts[name]}</w:{name}>"
    return package(held)


def _pptx(given: str, parts: Mapping[str, str]) -> bytes:
    spaces = f'xmlns:p="{SLIDE}" xmlns:a="{DRAWING}" xmlns:m="{MATH}" xmlns:mc="{COMPATIBLE}" xmlns:a14="{OFFICE_2010}"'
    shape = given if given.startswith("<p:") else f"<p:sp><p:txBody>{given}</p:txBody></p:sp>"
    slide = f"<p:sld {spaces} {parts.get('slide', '')}><p:cSld><p:spTree>{shape}</p:spTree></p:cSld></p:sld>"
    notes = f"<p:notes {spaces}><p:cSld><p:sp><p:txBody>{parts.get('notes', '')}</p:txBody></p:sp></p:cSld></p:notes>"
    return package(pptx_parts({"one": slide}, notes={"one": notes} if "notes" in parts else None))


def _xlsx(given: str, parts: Mapping[str, str]) -> bytes:
    head = '<row r="1"><c r="A1" t="inlineStr"><is><t>text</t></is></c></row>'
    rows = given if given.startswith("<row") else f'<row r="2"><c r="A2" t="inlineStr"><is>{given}</is></c></row>'
    sheet = f'<worksheet xmlns="{SHEET}">{parts.get("cols", "")}<sheetData>{head}{rows}</sheetData></worksheet>'
    book = f'<sheets><sheet name="a" sheetId="1" r:id="s1" {parts.get("sheet", "")}/></sheets>'
    return package(
        {
            "_rels/.rels": relations(a="officeDocument:xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATED}">{book}</workbook>',
            "xl/_rels/workbook.xml.rels": relations(s1="worksheet:sheet1.xml", t="sharedStrings:strings.xml"),
            "xl/strings.xml": f'<sst xmlns="{SHEET}"><si>{parts.get("shared", "")}</si></sst>',
            "xl/sheet1.xml": sheet,
        }
    )


def _pdf(given: str, parts: Mapping[str, str]) -> bytes:
    """A page with these lines; one that begins with "~ " is drawn in no color, as recognized text is."""
    shown = ["BT /F 10 Tf 12 TL 40 780 Td"]
    for line in given.split("\n"):
        mode, text = (3, line[2:]) if line.startswith("~ ") else (0, line)
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        shown.append(f"{mode} Tr ({escaped}) Tj T*")
    content = "\n".join([*shown, "ET"]).encode("cp1252")
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj%b\nendobj\n" % (number, body))
    start = out.tell()
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    out.write(
        b"xref\n0 6\n0000000000 65535 f \n%btrailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (rows, start)
    )
    return out.getvalue()


def _jats(given: str, parts: Mapping[str, str]) -> str:
    meta = '<front><article-meta><article-id pub-id-type="pmc">1</article-id></article-meta></front>'
    space = f'xmlns:mml="{MATHML}" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f"<article {space}>{meta}<body>{given}</body>{parts.get('back', '')}</article>"


def _pubmed(given: str, parts: Mapping[str, str]) -> str:
    if given.startswith("<Pubmed"):
        return f"<PubmedArticleSet>{given}</PubmedArticleSet>"
    abstract = given if given.startswith("<AbstractText") else f"<AbstractText>{given}</AbstractText>"
    return (
        f'<PubmedArticleSet xmlns:mml="{MATHML}"><PubmedArticle><MedlineCitation><PMID>1</PMID><Article>'
        f"<Abstract>{abstract}</Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
    )


def _patent(given: str, parts: Mapping[str, str]) -> str:
    """A grant in XML, or one of before 2001 if it does not begin with a tag."""
    if not given.startswith("<"):
        return f"PATN\nWKU  039305271\nBSUM\n{given}\n"
    about = "<us-bibliographic-data-grant><publication-reference><document-id><doc-number>1</doc-number></document-id>"
    return (
        f"<us-patent-grant>{about}</publication-reference></us-bibliographic-data-grant>"
        f"<description>{given}</description></us-patent-grant>"
    )


def _mail(given: str, parts: Mapping[str, str]) -> bytes:
    """A message whose only part is HTML, or plain if it does not begin with a tag."""
    message = EmailMessage()
    message["Subject"], message["From"] = "Piers", "ada@example.org"
    message.set_content(given, subtype="html" if given.startswith("<") else "plain")
    return message.as_bytes()


def _plain(given: str, parts: Mapping[str, str]) -> str:
    return given


Maker = Callable[[str, Mapping[str, str]], str | bytes]
COLUMNS: dict[str, tuple[str, Maker]] = {
    "page": ("a.html", _page),
    "wiki": ("enwiki-20261001-pages-articles.xml", _wiki),
    "EPUB": ("a.epub", _epub),
    ".docx": ("a.docx", _docx),
    ".pptx": ("a.pptx", _pptx),
    ".xlsx": ("a.xlsx", _xlsx),
    "PDF": ("a.pdf", _pdf),
    "JATS": ("a.nxml", _jats),
    "PubMed": ("a.xml", _pubmed),
    "patents": ("a.xml", _patent),
    "Markdown": ("a.md", _plain),
    "mail": ("a.eml", _mail),
    "CSV and TSV": ("a.csv", _plain),
    "JSON": ("a.jsonl", _plain),
}
