"""Endings of the files that the kind "files" reads: one table, from which messages and the help are made."""

from corpora.sources.bytes.endings import ENCRYPTED, OTHER_PACKING, PACKED_ENDINGS, with_packed_endings
from corpora.sources.xml.presets import OTHER_ROOT, PRESETS, describe_preset

TEXT_ENDINGS = with_packed_endings(".txt")
MARKDOWN_ENDINGS = with_packed_endings(".md")
PATENT_ENDINGS = with_packed_endings(".greenbook")  # and .txt that begin as those do
XML_ENDINGS = with_packed_endings(".xml", ".nxml")  # whose root element is that of a preset
LINE_ENDINGS = with_packed_endings(".jsonl", ".ndjson")
JSON_ENDINGS = with_packed_endings(".json")
TABLE_ENDINGS = with_packed_endings(".csv", ".tsv")
PAGE_ENDINGS = with_packed_endings(".html", ".htm")
MAIL_ENDINGS = with_packed_endings(".eml")
MAILBOX_ENDINGS = with_packed_endings(".mbox")
MAILBOX_NAMES = ("mbox",)  # a mailbox without ending
PARQUET_ENDINGS = (".parquet",)
BOOK_ENDINGS = (".epub",)
WORD_ENDINGS = (".docx",)
SLIDE_ENDINGS = (".pptx",)
SHEET_ENDINGS = (".xlsx", ".xlsm")
PDF_ENDINGS = (".pdf",)  # read where the extra `documents` is installed
ARCHIVE_ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".wet", ".wet.gz", ".wet.zst")
ZIP_ENDINGS = (".zip",)  # whose members are read as files
ENDINGS = (
    *(*TEXT_ENDINGS, *MARKDOWN_ENDINGS, *PATENT_ENDINGS, *XML_ENDINGS, *LINE_ENDINGS, *JSON_ENDINGS),
    *(*TABLE_ENDINGS, *PAGE_ENDINGS, *MAIL_ENDINGS, *MAILBOX_ENDINGS),
    *(*PARQUET_ENDINGS, *BOOK_ENDINGS, *WORD_ENDINGS, *SLIDE_ENDINGS, *SHEET_ENDINGS, *PDF_ENDINGS),
    *(*ARCHIVE_ENDINGS, *ZIP_ENDINGS),
)

REMEDIES = {  # of kinds of files that are not read, and could be
    ".xls": "An .xls is read when it is saved as .xlsx",
    ".ppt": "A .ppt is read when it is saved as .pptx",
    ".doc": "A .doc is read when it is saved as .docx",
    ".rtf": "An .rtf is read when it is saved as .docx",
    ".odt": "An .odt is read when it is saved as .docx",
    ".ods": "An .ods is read when it is saved as .xlsx",
    ".odp": "An .odp is read when it is saved as .pptx",
    ".msg": "A .msg is read when it is saved as .eml",
    ".pst": "A .pst is read when its folders are exported as .mbox",
    **dict.fromkeys((".rar", ".7z"), "Archives other than .zip are read when they are unpacked"),
    ".tex": "A .tex is read when pandoc has made a .txt or .md of it",
    ".pubtator": "A .pubtator is read when it is saved as .jsonl",
    OTHER_ROOT: 'XML whose root is of no preset is read with kind = "xml", `record` and `fields`',
    **{
        describe_preset(name): f'{describe_preset(name)} is read with preset = "{name}" or kind = "files"'
        for name in PRESETS
    },
    ENCRYPTED: "Encrypted members of a .zip are read when it is unpacked with its password",
    OTHER_PACKING: "Members of a .zip that are packed in another way are read when it is unpacked",
}


def format_endings(endings: tuple[str, ...]) -> str:
    """Format file extensions for a message.

    Extensions that can be compressed in the same ways are grouped. The extensions of these compressions follow them.

    >>> format_endings((".txt", ".md", ".txt.gz", ".md.gz", ".epub"))
    '.txt, .md (each also .gz), .epub'
    """
    packings = {
        ending: tuple(outer for outer in PACKED_ENDINGS if ending + outer in endings)
        for ending in endings
        if not ending.endswith(PACKED_ENDINGS)
    }
    groups = {each: [ending for ending, packing in packings.items() if packing == each] for each in packings.values()}
    return ", ".join(
        ", ".join(group) + (f" ({'each ' * (len(group) > 1)}also {', '.join(outer)})" if outer else "")
        for outer, group in groups.items()
    )


KNOWN_ENDINGS = format_endings(ENDINGS)
