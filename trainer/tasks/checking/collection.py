"""A collection to search in: documents, queries, and judgements of which documents are relevant.

Cost: the documents are read once; memory: a hash and an id of each.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from corpora.errors import InputError
from trainer.tasks.checking.files import hash_of
from trainer.tasks.checking.findings import DataFinding, DataReport, percent, several, shortened
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
        yield DataFinding(
            name="empty-texts",
            severity="doubtful",
            what=f"{several(len(empty), 'document')} no text: {shortened(empty)}",
            where=name,
            remedy="give their texts, or know that they are not met",
        )
    if again:
        yield DataFinding(
            name="repeated-ids",
            severity="stops",
            what=f"{several(len(again), 'document')} the id of another: {shortened(again)}",
            where=name,
            remedy="give each an id of its own",
        )
    if repeated:
        yield DataFinding(
            name="repeated-rows",
            severity="doubtful",
            what=f"{repeated:,} documents have the text of another, so either may be the answer that was judged",
            where=name,
            remedy="keep one of each",
        )


def _judgements(name: str, judged: Judgements, documents: set[str]) -> Iterator[DataFinding]:
    pairs = [(query, document) for query, row in judged.items() for document, grade in row.items() if grade > 0]
    missing = [(query, document) for query, document in pairs if document not in documents]
    if missing:
        yield DataFinding(
            name="missing-documents",
            severity="stops" if len(missing) > MISSING * len(pairs) else "doubtful",
            what=f"{len(missing):,} of {len(pairs):,} relevant documents ({percent(len(missing), len(pairs))}) are not "
            f"in the collection, so that they are never met: {shortened([document for _, document in missing])}",
            where=name,
            remedy="give the whole collection, or leave these judgements out",
        )


def _queries(name: str, path: str, asked: dict[str, str], judged: Judgements) -> Iterator[DataFinding]:
    try:
        taken = judged_queries(asked, judged, path)
    except InputError as error:
        yield DataFinding(name="missing-queries", severity="stops", what=str(error), where=name, remedy="")
        return
    by_place = any(asked.get(query) != text for query, text in taken.items())
    if by_place:
        yield DataFinding(
            name="missing-queries",
            severity="doubtful",
            what="judgements name queries by their places from 1, for some of their names are no ids of queries",
            where=name,
            remedy="nothing is to be done if it is Cranfield; else give the queries of these judgements",
        )
    if len(taken) < len(asked):
        yield DataFinding(
            name="unjudged-queries",
            severity="doubtful",
            what=f"{len(asked) - len(taken):,} of {len(asked):,} queries are not judged and not scored",
            where=name,
            remedy="leave them out, or have them judged",
        )
    useless = [query for query, row in judged.items() if not any(grade > 0 for grade in row.values())]
    if useless:
        yield DataFinding(
            name="unjudged-queries",
            severity="doubtful",
            what=f"{len(useless):,} queries have no relevant document, and every model scores 0: {shortened(useless)}",
            where=name,
            remedy="leave them out",
        )
