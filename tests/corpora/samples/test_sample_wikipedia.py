"""The shipped dump: packed from its pages, well-formed, and as varied as it claims to be."""

import bz2
import hashlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pack_wikipedia as pack

FOLDER = pack.FOLDER
DUMP = FOLDER / pack.DUMP_NAME
INDEX = FOLDER / pack.INDEX_NAME
TAG = "{http://www.mediawiki.org/xml/export-0.11/}"

# What a cleaner of wikitext meets: each has to occur somewhere in the sample.
CONSTRUCTS = (
    "{{Infobox", "{{convert|", "{{cvt|", "{{formatnum:", "{{val|", "{{lang|fr|", "{{nihongo|", "{{circa|",
    "{{birth date|", "{{death date and age|", "{{coord|", "{{cite book", "{{quote|", "{{efn|", "{{Reflist}}",
    "{{Use dmy dates", "{{About|", "{{DEFAULTSORT:", "__NOTOC__", "<ref>", "<ref name=", "<references />",
    "<math>", "<gallery", "<nowiki>", "<syntaxhighlight", "<sub>", "<!--", "&nbsp;", "&mdash;", "{| class=",
    "\n|-", "\n* ", "\n** ", "\n# ", "\n; ", "\n:", "\n== ", "\n===", "'''", "[[File:", "|thumb",
    "[[Category:", "[https://", "#REDIRECT", "\n#redirect", "{{{name|", "~~~~", "\u00e9", "\u03ba", "\u6f09",
)  # fmt: skip


def page_files() -> list[Path]:
    return sorted(pack.PAGES.glob("*.wiki"))


def wikitext(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n\n", 1)[1]


def test_the_pages_pack_to_the_shipped_bytes() -> None:
    dump, index = pack.pack(pack.read_pages(pack.PAGES))
    assert hashlib.sha256(dump).digest() == hashlib.sha256(DUMP.read_bytes()).digest()
    assert hashlib.sha256(index).digest() == hashlib.sha256(INDEX.read_bytes()).digest()


def test_the_dump_is_well_formed_and_gives_the_texts_back() -> None:
    pages = ElementTree.fromstring(bz2.decompress(DUMP.read_bytes())).findall(f"{TAG}page")
    bodies = sorted(wikitext(path).removesuffix("\n") for path in page_files())
    assert sorted(page.findtext(f"{TAG}revision/{TAG}text", "") for page in pages) == bodies
    for page in pages:
        text = page.find(f"{TAG}revision/{TAG}text")
        assert text is not None
        assert int(text.attrib["bytes"]) == len((text.text or "").encode())
    ids = [int(page.findtext(f"{TAG}id", "")) for page in pages]
    assert ids == sorted(set(ids))


def test_every_construct_of_wikitext_occurs() -> None:
    text = "\n".join(wikitext(path) for path in page_files())
    assert [construct for construct in CONSTRUCTS if construct not in text] == []
