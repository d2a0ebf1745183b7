"""Patents of every format, and XML by its root: what is read of each, and damage in it."""
# ruff: noqa: RUF001 - Greek letters are meant

from pathlib import Path
from typing import Any

import pytest
from source_reading import read_and_find as read
from source_reading import reasons

from corpora.errors import InputError
from corpora.sources.contract import Record, list_unhashed_files
from corpora.sources.files.endings import REMEDIES
from corpora.sources.files.source import FilesSource
from corpora.sources.passed_over import count_files
from corpora.sources.xml.source import XmlSource

GREENBOOK = """PATN
WKU  039373754
TTL  Support for a
      small boat
ISD  19760210
INVT
NAM  Reed; Mary
ABST
PAL  A support that is
      mounted on a wall.
BSUM
PAC  BACKGROUND
PAR  It holds a boat.
TBL  ____________
      1    2    3
CLMS
STM  What is claimed is:
NUM  1.
PAR  1. A support of wood.
"""
GRANT_2002 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE PATDOC SYSTEM "a.dtd" [<!ENTITY P.TIF SYSTEM "P.TIF" NDATA TIF>]>
<PATDOC><SDOBI><B100><B110><DNUM><PDAT>06000001</PDAT></DNUM></B110><B140><DATE><PDAT>20020101</PDAT></DATE></B140>
</B100><B500><B540><STEXT><PDAT>A lamp</PDAT></STEXT></B540></B500></SDOBI><SDOAB><BTEXT><PARA><PTEXT>
<PDAT>A lamp of &agr; and &PHgr; rays.</PDAT></PTEXT></PARA></BTEXT></SDOAB><SDOCL><CL><CLM><PARA><PTEXT>
<PDAT>1. A lamp.</PDAT></PTEXT></PARA></CLM></CL></SDOCL></PATDOC>
"""
APPLICATION_2001 = """<?xml version="1.0"?><!DOCTYPE patent-application-publication SYSTEM "b.dtd" []>
<patent-application-publication><subdoc-bibliographic-information><document-id><doc-number>20010000001</doc-number>
<document-date>20010510</document-date></document-id><technical-information><title-of-invention>A rope
</title-of-invention></technical-information></subdoc-bibliographic-information><subdoc-abstract>
<paragraph><number>[0001]</number>A rope.</paragraph></subdoc-abstract></patent-application-publication>
"""
NEW = """<?xml version="1.0"?><us-patent-{0}><us-bibliographic-data-{0}><publication-reference><document-id>
<doc-number>{1}</doc-number><date>20150106</date></document-id></publication-reference><invention-title>A {0}
</invention-title></us-bibliographic-data-{0}><abstract><p>An {0} is abstract.</p></abstract></us-patent-{0}>
"""


def files(path: Path, **settings: Any) -> FilesSource:
    return FilesSource(name="own", path=str(path), **settings)


def facts(records: list[Record]) -> list[tuple[str | None, ...]]:
    return [(record.key, record.title, record.date, record.text) for record in records]


def test_a_folder_of_patents_of_all_years_needs_no_setting(tmp_path: Path) -> None:
    """Fails if a format of patents is not recognized, or a week's file is one document."""
    (tmp_path / "1976.txt").write_text("HHHHHT  APS1  ISSUE - 760210\n" + GREENBOOK + GREENBOOK.replace("393", "394"))
    (tmp_path / "2001.xml").write_text(APPLICATION_2001)
    (tmp_path / "2002.xml").write_text(GRANT_2002 * 2)
    (tmp_path / "2015.xml").write_text(NEW.format("grant", "08000001") + NEW.format("application", "20150000001"))
    records = read(files(tmp_path))
    boat = "Support for a small boat\n\nA support that is mounted on a wall.\n\nBACKGROUND\n\nIt holds a boat.\n\n"
    boat += "What is claimed is:\n\n1. A support of wood."
    lamp = ("06000001", "A lamp", "2002-01-01", "A lamp\n\nA lamp of α and Φ rays.\n\n1. A lamp.")
    assert facts(records) == [
        ("03937375", "Support for a small boat", "1976-02-10", boat),
        ("03947375", "Support for a small boat", "1976-02-10", boat),
        ("20010000001", "A rope", "2001-05-10", "A rope\n\nA rope."),
        lamp,
        lamp,
        ("08000001", "A grant", "2015-01-06", "A grant\n\nAn grant is abstract."),
        ("20150000001", "A application", "2015-01-06", "A application\n\nAn application is abstract."),
    ]


def test_the_preset_reads_patents_of_every_root(tmp_path: Path) -> None:
    for number, text in enumerate((APPLICATION_2001, GRANT_2002, NEW.format("grant", "1"))):
        (tmp_path / f"{number}.xml").write_text(text)
    records = read(XmlSource(name="own", path=str(tmp_path), preset="patent"))
    assert [record.title for record in records] == ["A rope", "A lamp", "A grant"]


def test_files_of_another_preset_are_passed_over_and_named(tmp_path: Path) -> None:
    """Fails if one file of another kind ends the reading of all."""
    (tmp_path / "a.xml").write_text(GRANT_2002)
    (tmp_path / "b.nxml").write_text("<article><front/></article>")
    source = XmlSource(name="own", path=str(tmp_path), preset="patent")
    looked = count_files(source, list_unhashed_files(source.files()))
    assert [(group.kind, group.names) for group in looked.passed_over] == [("XML of preset jats", ("b.nxml",))]
    assert "XML of preset jats" in REMEDIES and len(read(source)) == 1
    with pytest.raises(InputError, match="holds XML of preset jats"):
        XmlSource(name="own", path=str(tmp_path / "b.nxml"), preset="patent").files()


def test_xml_of_another_root_is_not_read_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(GRANT_2002)
    (tmp_path / "map.xml").write_text("<kml><Placemark/></kml>")
    source = files(tmp_path)
    looked = count_files(source, list_unhashed_files(source.files()))
    assert [(group.kind, group.names) for group in looked.passed_over] == [("XML of no preset", ("map.xml",))]
    assert len(read(source)) == 1


def test_damage_in_a_record_costs_no_other(tmp_path: Path) -> None:
    """Fails if a cut, foreign or broken record ends a file, or is not counted."""
    foreign, broken = GREENBOOK.replace("WKU", "XKU"), GREENBOOK.encode().replace(b"boat", b"b\xff")
    path = tmp_path / "a.txt"
    path.write_bytes((GREENBOOK + foreign).encode() + broken + (GREENBOOK + GREENBOOK[:60]).encode())
    assert reasons(read(files(path))) == [None, "damaged", "damaged", None, None]
    small = read(files(path, max_record_bytes=100))
    assert reasons(small) == ["too large"] * 4 + [None]
