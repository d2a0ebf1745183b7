"""Endings of the files that the kind "files" reads: one table, from which messages and the help are made."""

from corpora.sources.bytes.endings import PACKED_ENDINGS, packed

TEXT_ENDINGS = packed(".txt", ".md")
LINE_ENDINGS = packed(".jsonl", ".ndjson")
TABLE_ENDINGS = packed(".csv", ".tsv")
PAGE_ENDINGS = packed(".html", ".htm")
PARQUET_ENDINGS = (".parquet",)
BOOK_ENDINGS = (".epub",)
WORD_ENDINGS = (".docx",)
PDF_ENDINGS = (".pdf",)  # read where the extra `documents` is installed
ARCHIVE_ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".wet", ".wet.gz", ".wet.zst")
ENDINGS = (
    *(*TEXT_ENDINGS, *LINE_ENDINGS, *TABLE_ENDINGS, *PAGE_ENDINGS),
    *(*PARQUET_ENDINGS, *BOOK_ENDINGS, *WORD_ENDINGS, *PDF_ENDINGS, *ARCHIVE_ENDINGS),
)


def in_words(endings: tuple[str, ...]) -> str:
    """Endings in words: those that may be packed alike together, with the endings that may follow.

    >>> in_words((".txt", ".md", ".txt.gz", ".md.gz", ".epub"))
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


KNOWN = in_words(ENDINGS)
