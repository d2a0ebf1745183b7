"""Formats of retrieval data: texts with ids as published by BEIR and MS MARCO, and relevance judgments.

beir     a `.jsonl` with `_id`, `title` and `text`, for documents and queries
msmarco  a `.tsv` without header: id and text or, for documents, id, address, title and text
qrels    `query 0 document relevance` (TREC, MS MARCO), or three tab-separated columns with a header (BEIR)
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, LineRecord, Roles, Unusable, is_unicode, number_lines

Judgements = dict[str, dict[str, int]]  # for each query its documents, and how relevant each is

TEXT_ROLES = ("id", "text")
TAG_PATTERN = re.compile(r"\s*(<\?xml|<(doc|top)\b|\.I\s+\S)", re.IGNORECASE)
BINARY_ENDINGS = (".parquet", ".xlsx", ".xlsm")


def read_beir(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the records of a BEIR `.jsonl` file with their line numbers, or `Unusable` for a line of another form.

    Each has an `id`, and as `text` the title and text joined by a space. `wanted` is not used.
    """
    for number, line in _iter_nonblank_lines(settings.path):
        try:
            value = json.loads(line)
            parts = value.get("title") or "", value["text"]
            yield number, {"id": str(value["_id"]), "text": " ".join(parts).strip()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield number, Unusable("not a JSON object with _id and text")


def read_msmarco(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the records of an MS MARCO `.tsv` file without header: id and text, or id, address, title and text.

    A record has an `id` and a `text`. If there is a title, title and text are joined by a space. A row with another
    number of columns is yielded as `Unusable`. `wanted` is not used.
    """
    for number, line in _iter_nonblank_lines(settings.path):
        name, *texts = line.rstrip("\r\n").split("\t")
        if len(texts) in (1, 3):
            yield number, {"id": name, "text": " ".join(texts[-2:]).strip() if len(texts) == 3 else texts[0]}
        else:
            yield number, Unusable("not id and text, or id, address, title and text", f"{len(texts) + 1} columns")


def check_untagged(path: str) -> None:
    """Raise InputError if a text file begins with a tag of TREC or SMART, two formats that are not supported."""
    if Path(path).name.lower().endswith(BINARY_ENDINGS):
        return
    if TAG_PATTERN.match(next((line for _, line in _iter_nonblank_lines(path)), "")):
        raise InputError(
            f"{path} has the tags of TREC or SMART, which are not read: write a table with the columns `id` and `text` "
            "(.tsv, .csv, .jsonl, .json, .parquet, .xlsx), or the form of BEIR (`--format beir`) or of MS MARCO "
            "(`--format msmarco`)."
        )


def read_judgements(path: str) -> Judgements:
    """Read relevance judgments (qrels) from a file in the format of TREC, MS MARCO or BEIR.

    A line with three tab-separated columns is in BEIR's format, otherwise it must have four columns. BEIR's header is
    skipped.

    Returns:
        The relevance (an integer) of each query's judged documents, by query id and document id.

    Raises:
        InputError: If the file cannot be read, a line is not a judgment or contradicts an earlier line, or there are no
            judgments.
    """
    judgements = Judgements()
    for place, (number, line) in enumerate(_iter_nonblank_lines(path)):
        tabbed = line.rstrip("\r\n").split("\t")
        columns = tabbed if len(tabbed) == 3 else line.split()
        if place == 0 and columns is tabbed and not _is_integer(columns[2]):
            continue  # BEIR's header
        if (columns is not tabbed and len(columns) != 4) or not _is_integer(columns[-1]) or not is_unicode(line):
            raise InputError(
                f"{path}, line {number}, is not a judgement: it must be a query, 0, a document and its relevance, or "
                "with tabs a query, a document and its relevance, in UTF-8."
            )
        judged = judgements.setdefault(columns[0], {})
        document, relevance = columns[-2], int(columns[-1])
        if judged.setdefault(document, relevance) != relevance:
            raise InputError(
                f"{path}, line {number}, judges document {document} of query {columns[0]} differently from an earlier "
                "line."
            )
    if not judgements:
        raise InputError(f"{path} has no judgements: give a file that holds some.")
    return judgements


def _iter_nonblank_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) pairs for the lines of a file that are not blank. All lines are counted, from 1."""
    return ((number, line) for number, line in number_lines(path) if line.strip())


def _is_integer(value: str) -> bool:
    return value.removeprefix("-").isdecimal() and value.isascii()
