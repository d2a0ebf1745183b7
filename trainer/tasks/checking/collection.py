"""A collection to search in: documents, queries, and judgements of which documents are relevant.

Cost: the documents are read once; memory: a hash and an id of each.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from corpora.errors import InputError
from trainer.tasks.checking.files import hash_of
from trainer.tasks.checking.findings import DataFinding, DataReport, finding, percent, several, shortened
from trainer.tasks.formats.layouts.trec import (
    Judgements,
    judged_queries,
    read_documents,
    read_judgements,
    read_queries,
)

MISSING = 0.1  # share of relevant documents that are not there, from which a score means nothing


def check_collection(documents: str, queries: str, judgements: str) -> DataReport:
    """Return what is seen in a collection. Raises InputError where a file cannot be read."""
    texts = dict[str, int]()
    empty, again, alike = list[str](), list[str](), Counter[int]()
    for name, text in read_documents(documents):
        again += [name] if name in texts else []
        empty += [] if text.strip() else [name]
        texts[name] = hash_of(text)
        alike[texts[name]] += 1 if text.strip() else 0
    asked, judged = read_queries(queries), read_judgements(judgements)
    names = {path: Path(path).name for path in (documents, queries, judgements)}
    findings = [
        *_documents(names[documents], empty, again, sum(alike.values()) - len(+alike)),
        *_judgements(names[judgements], judged, {*texts}),
        *_queries(names[queries], queries, asked, judged),
    ]
    looks = (
        f"{names[documents]} ({len(texts):,} documents), {names[queries]} ({len(asked):,} queries) and "
        f"{names[judgements]} ({sum(map(len, judged.values())):,} judgements): a collection to search in."
    )
    rows = {names[documents]: len(texts), names[queries]: len(asked), names[judgements]: len(judged)}
    return DataReport(looks=looks, rows=rows, findings=tuple(findings))


def _documents(name: str, empty: list[str], again: list[str], repeated: int) -> Iterator[DataFinding]:
    if empty:
        yield finding("empty-texts", name, documents=several(len(empty), "document"), ids=shortened(empty))
    if again:
        yield finding("repeated-ids/documents", name, documents=several(len(again), "document"), ids=shortened(again))
    if repeated:
        yield finding("repeated-rows/documents", name, documents=repeated)


def _judgements(name: str, judged: Judgements, documents: set[str]) -> Iterator[DataFinding]:
    pairs = [(query, document) for query, row in judged.items() for document, grade in row.items() if grade > 0]
    missing = [(query, document) for query, document in pairs if document not in documents]
    if missing:
        yield finding(
            "missing-documents",
            name,
            stops=len(missing) > MISSING * len(pairs),
            missing=len(missing),
            all=len(pairs),
            share=percent(len(missing), len(pairs)),
            documents=shortened([document for _, document in missing]),
        )


def _queries(name: str, path: str, asked: dict[str, str], judged: Judgements) -> Iterator[DataFinding]:
    try:
        taken = judged_queries(asked, judged, path)
    except InputError as error:
        yield finding("missing-queries", name, error=error)
        return
    by_place = any(asked.get(query) != text for query, text in taken.items())
    if by_place:
        yield finding("missing-queries/by-place", name)
    if len(taken) < len(asked):
        yield finding("unjudged-queries", name, rows=len(asked) - len(taken), all=len(asked))
    useless = [query for query, row in judged.items() if not any(grade > 0 for grade in row.values())]
    if useless:
        yield finding("unjudged-queries/useless", name, rows=len(useless), queries=shortened(useless))
