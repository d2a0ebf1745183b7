"""Retrieval: documents, queries, judgements and runs, as TREC, MS MARCO and BEIR publish them.

    documents, queries  TREC's tags (`<doc>`, `<top>`), SMART's lines (`.I 7`, `.T`, `.W`), `.tsv` of id and text, or of
                        id, address, title and text (MS MARCO), `.jsonl` of `_id`, `title` and `text` (BEIR), `.txt` of
                        a text a line, whose number is its id
    judgements          `query 0 document relevance` (TREC, MS MARCO); three columns, under a header (BEIR) or without
                        (Cranfield's own); `query document 0 0.000000`, each relevant (CISI's own)
    runs                `query Q0 document rank score name` (TREC), which are written

TREC's files are not XML: tags of any case, several roots, fields that are not closed. Tags and blanks between letters
of a text are one space, and a title that a text begins with is not repeated (Cranfield). Of a document its headline and
its text are read, with what newspapers have as a lead; of a topic the title.

Promise: every document is given, one without text as an empty text; what cannot be read is refused with its line, for
a document or a judgement that is left out would change every score. Memory: a document; all queries and judgements.
Cost: 25,000 documents of Cranfield a second, 31 MB (one x86-64 core, 2026-11-23).
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping

from corpora.errors import InputError
from trainer.tasks.formats.records import is_unicode, numbered_lines, unpacked_ending

Text = tuple[str, str]  # id and text
Judgements = dict[str, dict[str, int]]  # for each query its documents, and how relevant each is
Run = dict[str, dict[str, float]]  # for each query the documents found, and the score of each

TITLES, TEXTS = ("title", "headline", "hl", "head", "ttl"), ("text", "lp", "leadpara")
TAG = re.compile(r"<[^>]*>")
SMART = re.compile(r"\.([A-Z])(?:\s(.*))?$", re.DOTALL)
CISI = ["0", "0.000000"]  # after the query and a document that is relevant to it
HEADERS = {(name, text) for name in ("id", "_id", "docid", "doc_id", "pid", "qid", "query_id") for text in
           ("text", "passage", "query", "body", "contents")}  # fmt: skip


def read_documents(path: str) -> Iterator[Text]:
    """The documents of a collection in the file's order. Raises InputError."""
    return _texts(path, "doc", "docno", (TITLES, TEXTS))


def read_queries(path: str) -> dict[str, str]:
    """The queries by their ids, in the file's order; of TREC's topics the titles. Raises InputError."""
    queries = dict[str, str]()
    for name, text in _texts(path, "top", "num", (("title",),)):
        if name in queries:
            raise InputError(f"{path} has two queries {name!r}: give each an id of its own.")
        queries[name] = text
    return queries


def read_judgements(path: str) -> Judgements:
    """The relevance of the documents that were judged for each query (qrels). Raises InputError."""
    judgements = Judgements()
    for number, line in _lines(path):
        tabbed = line.rstrip("\r\n").split("\t")
        columns = tabbed if len(tabbed) == 3 and line.split()[2:] != CISI else line.split()
        if columns[2:] == CISI:
            columns = [*columns[:2], "1"]
        if number == 1 and columns is tabbed and not _is_whole(columns[2]):
            continue  # BEIR's header
        cut_off = len(columns) == 3 and columns is not tabbed and columns[1] == "0"
        if len(columns) not in (3, 4) or cut_off or not _is_whole(columns[-1]):
            raise InputError(
                f"{path}, line {number}, is not a judgement: it must be a query, 0, a document and its relevance, or "
                "without the 0."
            )
        judged = judgements.setdefault(columns[0], {})
        document, relevance = columns[-2], int(columns[-1])
        if judged.setdefault(document, relevance) != relevance:
            raise InputError(
                f"{path}, line {number}, judges document {document} of query {columns[0]} differently from an earlier "
                "line."
            )
    return judgements


def run_lines(run: Mapping[str, Mapping[str, float]], name: str) -> Iterator[str]:
    """Yield a run as the lines of its file. run: the best document of a query first

    >>> list(run_lines({"7": {"b": 2.0, "a": 0.5}}, "dense"))
    ['7 Q0 b 1 2.0 dense\\n', '7 Q0 a 2 0.5 dense\\n']
    """
    for query, scores in run.items():
        for rank, (document, score) in enumerate(scores.items(), 1):
            yield f"{query} Q0 {document} {rank} {score!r} {name}\n"


def judged_queries(queries: Mapping[str, str], judgements: Judgements, path: str) -> dict[str, str]:
    """Return the queries that were judged, by the ids of the judgements. Raises InputError where some are missing.

    Where no id of the judgements is one of the queries' they are places from 1, as in Cranfield's files, whose
    queries have the numbers 1, 2, 4, 8 and are judged as 1, 2, 3, 4.

    path: of the queries
    """
    missing = [name for name in judgements if name not in queries]
    if not missing:
        return {name: queries[name] for name in judgements}
    places = {str(place): text for place, text in enumerate(queries.values(), 1)}
    if all(name in places for name in judgements):
        return {name: places[name] for name in judgements}
    raise InputError(
        f"{path} lacks {len(missing)} of the {len(judgements)} queries that were judged, the first of them "
        f"{missing[0]!r}: give the queries of these judgements."
    )


# Texts in three formats.


def _texts(path: str, mark: str, name: str, fields: tuple[tuple[str, ...], ...]) -> Iterator[Text]:
    ending = unpacked_ending(path)
    if ending == ".tsv":
        texts = _of_lines(path, _tabbed)
    elif ending in (".jsonl", ".ndjson"):
        texts = _of_lines(path, _object)
    elif _begins_with(path, ".I "):
        texts = _smart(path)
    elif ending == ".txt" and not _begins_with(path, "<"):
        texts = ((number, (str(number), line.strip())) for number, line in _lines(path))
    else:
        texts = _tagged(path, mark, name, fields)
    for line, (text_id, text) in texts:
        if not is_unicode(text_id + text) or "\0" in text:
            raise InputError(f"{path}, line {line}, is not UTF-8: convert the file, for instance with iconv.")
        yield text_id, text


def _begins_with(path: str, mark: str) -> bool:
    """Tells whether the first line that is not blank begins so."""
    return next((line.lstrip() for _, line in _lines(path)), "").startswith(mark)


def _smart(path: str) -> Iterator[tuple[int, Text]]:
    """Yield the texts of a file of the SMART system, as Cranfield, CISI and MED are published: title and text.

    Raises InputError for a text without an id.
    """
    field, parts = "", dict[str, list[str]]()
    first = 0
    for number, line in _lines(path):
        if mark := SMART.match(line):
            if mark[1] == "I":
                if parts:
                    yield first, _smart_text(parts)
                first, parts = number, {"I": [mark[2].strip()]}
                if not mark[2].strip():
                    raise InputError(f"{path}, line {number}: the text that begins there has no id after its .I.")
            field = mark[1]
        elif field:
            parts.setdefault(field, []).append(line.strip())
    yield first, _smart_text(parts)


def _smart_text(parts: Mapping[str, list[str]]) -> Text:
    title, text = (" ".join(parts.get(field, ())) for field in "TW")
    return parts["I"][0], _joined([title, text])


def _of_lines(path: str, read: Callable[[str], Text | str]) -> Iterator[tuple[int, Text]]:
    for number, line in _lines(path):
        text = read(line)
        if isinstance(text, str):
            raise InputError(f"{path}, line {number}, {text}.")
        yield number, text


def _tabbed(line: str) -> Text | str:
    name, *texts = line.rstrip("\r\n").split("\t")
    if not name or not texts:
        return "is not an id and a text with a tab between"
    if len(texts) not in (1, 3):
        return (
            f"has {len(texts) + 1} columns: MS MARCO's files have an id and a text with a tab between, or id, "
            "address, title and text; name the format of another table (tsv), whose header names its columns"
        )
    if (name.lower(), texts[-1].lower()) in HEADERS:
        return "is a header, and MS MARCO's files have none: name the format of the table, tsv"
    return name, " ".join(texts[-2:]).strip() if len(texts) == 3 else texts[0]


def _object(line: str) -> Text | str:
    try:
        value = json.loads(line)
        name, title, text = str(value["_id"]), value.get("title") or "", value["text"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "is not a JSON object with _id and text"
    if not isinstance(title, str) or not isinstance(text, str):
        return "has a text that is none"
    return name, f"{title} {text}".strip()


def _tagged(path: str, mark: str, name: str, fields: tuple[tuple[str, ...], ...]) -> Iterator[tuple[int, Text]]:
    """Yield the blocks between tags as texts. Raises InputError where one has no id, or there is none."""
    empty = True
    for line, block in _blocks(path, mark):
        empty = False
        own_id = _field(block, (name,)).removeprefix("Number:").strip()
        if not own_id:
            raise InputError(f"{path}, line {line}: the <{mark}> that begins there has no <{name}>.")
        text = _joined([_field(block, names) for names in fields])
        yield line, (own_id, text.removeprefix("Topic:").strip() if mark == "top" else text)
    if empty:
        raise InputError(
            f"{path} has no <{mark}>: is it a file of TREC? Files of id and text must be named .tsv, those of BEIR "
            ".jsonl."
        )


def _blocks(path: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yield what is between each opening tag and its closing one, or the next opening one, and its first line."""
    tag = re.compile(rf"<(/?){mark}>", re.IGNORECASE)
    parts: list[str] | None = None
    first = 1
    for number, line in numbered_lines(path):
        at = 0
        for match in tag.finditer(line):
            if parts is not None:
                yield first, "".join([*parts, line[at : match.start()]])
            parts, first, at = None if match[1] else [], number, match.end()
        if parts is not None:
            parts.append(line[at:])
    if parts is not None:
        yield first, "".join(parts)


def _field(block: str, names: tuple[str, ...]) -> str:
    """The text of a field, of several of that name all; one that is not closed ends at the next tag.

    >>> _field("<num> Number: 7\\n<title> Wings &amp; <b>flaps</b>\\n<desc>", ("num",))
    'Number: 7'
    >>> _field("<TEXT>Wings &amp; <b>flaps</b>.</TEXT>", ("text",))
    'Wings & flaps .'
    """
    texts = list[str]()
    end = 0
    for match in re.finditer(rf"<({'|'.join(names)})>", block, re.IGNORECASE):
        if match.start() < end:  # in one that has been read
            continue
        closed = block.lower().find(f"</{match[1].lower()}>", match.end())
        rest = block[match.end() : closed] if closed >= 0 else block[match.end() :].partition("<")[0]
        end = match.end() + len(rest)
        texts.append(TAG.sub(" ", rest))
    return " ".join(html.unescape(" ".join(texts)).split())


def _joined(texts: list[str]) -> str:
    title, text = texts[0], " ".join(texts[1:])
    return text if text.startswith(title) else f"{title} {text}".strip()


# Lines of columns.


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers. Raises InputError where there is none."""
    empty = True
    for number, line in numbered_lines(path):
        if line.strip():
            empty = False
            yield number, line
    if empty:
        raise InputError(f"{path} is empty: give a file that is not.")


def _is_whole(value: str) -> bool:
    return value.removeprefix("-").isdecimal() and value.isascii()
